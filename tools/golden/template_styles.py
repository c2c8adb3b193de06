"""Whole chat templates, written for these tests in the manner of the published families, and the
conversations they are rendered with. None is a copy of a model's own template; each uses the constructs
that its family's template uses."""

THINKING = r'''
{%- set ns = namespace(scan=true, last_query=messages | length - 1) %}
{%- if tools %}
    {{- '<|im_start|>system\n' }}
    {%- if messages and messages[0].role == 'system' %}
        {{- messages[0].content + '\n\n' }}
    {%- endif %}
    {{- "You can call functions. Their signatures:\n<tools>" }}
    {%- for tool in tools %}
        {{- "\n" }}
        {{- tool | tojson }}
    {%- endfor %}
    {{- "\n</tools>\nAnswer a call as <tool_call>{\"name\": ..., \"arguments\": ...}</tool_call><|im_end|>\n" }}
{%- elif messages and messages[0].role == 'system' %}
    {{- '<|im_start|>system\n' + messages[0].content + '<|im_end|>\n' }}
{%- endif %}
{#- Walk backwards to the last real question. -#}
{%- for message in messages[::-1] %}
    {%- set index = (messages | length - 1) - loop.index0 %}
    {%- if ns.scan and message.role == 'user' and message.content is string and not (message.content.startswith('<tool_response>') and message.content.endswith('</tool_response>')) %}
        {%- set ns.scan = false %}
        {%- set ns.last_query = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- if message.content is string %}
        {%- set content = message.content %}
    {%- else %}
        {%- set content = '' %}
    {%- endif %}
    {%- if message.role == 'user' or (message.role == 'system' and not loop.first) %}
        {{- '<|im_start|>' + message.role + '\n' + content + '<|im_end|>' + '\n' }}
    {%- elif message.role == 'assistant' %}
        {%- set thought = '' %}
        {%- if message.reasoning_content is string %}
            {%- set thought = message.reasoning_content %}
        {%- elif '</think>' in content %}
            {%- set thought = content.split('</think>')[0].rstrip('\n').split('<think>')[-1].lstrip('\n') %}
            {%- set content = content.split('</think>')[-1].lstrip('\n') %}
        {%- endif %}
        {%- if loop.index0 > ns.last_query and (loop.last or thought) %}
            {{- '<|im_start|>' + message.role + '\n<think>\n' + thought.strip('\n') + '\n</think>\n\n' + content.lstrip('\n') }}
        {%- else %}
            {{- '<|im_start|>' + message.role + '\n' + content }}
        {%- endif %}
        {%- if message.tool_calls %}
            {%- for call in message.tool_calls %}
                {%- if (loop.first and content) or (not loop.first) %}{{- '\n' }}{%- endif %}
                {%- if call.function %}{%- set call = call.function %}{%- endif %}
                {{- '<tool_call>\n{"name": "' + call.name + '", "arguments": ' }}
                {%- if call.arguments is string %}{{- call.arguments }}{%- else %}{{- call.arguments | tojson }}{%- endif %}
                {{- '}\n</tool_call>' }}
            {%- endfor %}
        {%- endif %}
        {{- '<|im_end|>\n' }}
    {%- elif message.role == 'tool' %}
        {%- if loop.first or (messages[loop.index0 - 1].role != 'tool') %}{{- '<|im_start|>user' }}{%- endif %}
        {{- '\n<tool_response>\n' + content + '\n</tool_response>' }}
        {%- if loop.last or (messages[loop.index0 + 1].role != 'tool') %}{{- '<|im_end|>\n' }}{%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\n\n</think>\n\n' }}
    {%- endif %}
{%- endif %}
'''

PARTS = r'''
{%- set counts = namespace(images=0, videos=0) %}
{%- macro show(content, count=false, is_system=false) %}
    {%- if content is string %}
        {{- content }}
    {%- elif content is iterable and content is not mapping %}
        {%- for part in content %}
            {%- if 'image' in part or part.type == 'image' %}
                {%- if is_system %}{{- raise_exception('a system message cannot hold images') }}{%- endif %}
                {%- if count %}{%- set counts.images = counts.images + 1 %}{%- endif %}
                {%- if number_images %}{{- 'Image ' ~ counts.images ~ ': ' }}{%- endif %}
                {{- '<|image|>' }}
            {%- elif 'text' in part %}
                {{- part.text }}
            {%- else %}
                {{- raise_exception('unknown part in ' ~ (part | tojson)) }}
            {%- endif %}
        {%- endfor %}
    {%- elif content is none or content is undefined %}
        {{- '' }}
    {%- else %}
        {{- raise_exception('unexpected content') }}
    {%- endif %}
{%- endmacro %}
{%- if not messages %}{{- raise_exception('no messages') }}{%- endif %}
{%- if tools and tools is iterable and tools is not mapping %}
    {{- '<|im_start|>system\n# Functions\n<tools>' }}
    {%- for tool in tools %}{{- '\n' }}{{- tool | tojson }}{%- endfor %}
    {{- '\n</tools>' }}
    {%- if messages[0].role == 'system' %}
        {%- set content = show(messages[0].content, false, true) | trim %}
        {%- if content %}{{- '\n\n' + content }}{%- endif %}
    {%- endif %}
    {{- '<|im_end|>\n' }}
{%- elif messages[0].role == 'system' %}
    {{- '<|im_start|>system\n' + show(messages[0].content, false, true) | trim + '<|im_end|>\n' }}
{%- endif %}
{%- for message in messages %}
    {%- set content = show(message.content, true) | trim %}
    {%- if message.role == 'system' %}
        {%- if not loop.first %}{{- raise_exception('system must come first') }}{%- endif %}
    {%- elif message.role == 'user' %}
        {{- '<|im_start|>user\n' + content + '<|im_end|>\n' }}
    {%- elif message.role == 'assistant' %}
        {{- '<|im_start|>assistant\n' + content }}
        {%- if message.tool_calls and message.tool_calls is iterable and message.tool_calls is not mapping %}
            {%- for call in message.tool_calls %}
                {%- if call.function is defined %}{%- set call = call.function %}{%- endif %}
                {{- ('\n\n' if loop.first and content else '\n' if not loop.first else '') + '<tool_call>\n<function=' + call.name + '>\n' }}
                {%- if call.arguments is mapping %}
                    {%- for name, value in call.arguments | items %}
                        {{- '<parameter=' + name + '>\n' }}
                        {%- set value = value | tojson | safe if value is mapping or (value is sequence and value is not string) else value | string %}
                        {{- value }}
                        {{- '\n</parameter>\n' }}
                    {%- endfor %}
                {%- endif %}
                {{- '</function>\n</tool_call>' }}
            {%- endfor %}
        {%- endif %}
        {{- '<|im_end|>\n' }}
    {%- elif message.role == 'tool' %}
        {%- if loop.previtem and loop.previtem.role != 'tool' %}{{- '<|im_start|>user' }}{%- endif %}
        {{- '\n<tool_response>\n' + content + '\n</tool_response>' }}
        {%- if not loop.last and loop.nextitem.role != 'tool' %}{{- '<|im_end|>\n' }}{%- elif loop.last %}{{- '<|im_end|>\n' }}{%- endif %}
    {%- else %}
        {{- raise_exception('unexpected role ' ~ message.role) }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\n' }}
    {%- if enable_thinking is defined and enable_thinking is true %}{{- '<think>\n' }}{%- else %}{{- '<think>\n\n</think>\n\n' }}{%- endif %}
{%- endif %}
'''

HEADERS = r'''
{{- bos_token }}
{%- if custom_tools is defined %}{%- set tools = custom_tools %}{%- endif %}
{%- if not tools_in_user_message is defined %}{%- set tools_in_user_message = true %}{%- endif %}
{%- if not date_string is defined %}
    {%- if strftime_now is defined %}{%- set date_string = strftime_now("%d %b %Y") %}{%- else %}{%- set date_string = "26 Jul 2024" %}{%- endif %}
{%- endif %}
{%- if not tools is defined %}{%- set tools = none %}{%- endif %}
{#- The system message is taken out, so that what follows starts with the user. #}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content'] | trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}
{{- "<|start_header_id|>system<|end_header_id|>\n\n" }}
{%- if builtin_tools is defined or tools is not none %}{{- "Environment: ipython\n" }}{%- endif %}
{%- if builtin_tools is defined %}
    {{- "Tools: " + builtin_tools | reject('equalto', 'code_interpreter') | join(", ") + "\n\n" }}
{%- endif %}
{{- "Today: " + date_string + "\n\n" }}
{%- if tools is not none and not tools_in_user_message %}
    {%- for t in tools %}
        {{- t | tojson(indent=4) }}
        {{- "\n\n" }}
    {%- endfor %}
{%- endif %}
{{- system_message }}
{{- "<|eot_id|>" }}
{%- if tools_in_user_message and not tools is none %}
    {%- if messages | length != 0 %}
        {%- set first_user_message = messages[0]['content'] | trim %}
        {%- set messages = messages[1:] %}
    {%- else %}
        {{- raise_exception("tools need a first user message") }}
    {%- endif %}
    {{- '<|start_header_id|>user<|end_header_id|>\n\n' -}}
    {{- "Use one of these functions:\n\n" }}
    {%- for t in tools %}
        {{- t | tojson(indent=4) }}
        {{- "\n\n" }}
    {%- endfor %}
    {{- first_user_message + "<|eot_id|>" }}
{%- endif %}
{%- for message in messages %}
    {%- if not (message.role == 'ipython' or message.role == 'tool' or 'tool_calls' in message) %}
        {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n' + message['content'] | trim + '<|eot_id|>' }}
    {%- elif 'tool_calls' in message %}
        {%- if not message.tool_calls | length == 1 %}
            {{- raise_exception("one call at a time") }}
        {%- endif %}
        {%- set tool_call = message.tool_calls[0].function %}
        {{- '<|start_header_id|>assistant<|end_header_id|>\n\n' -}}
        {%- if builtin_tools is defined and tool_call.name in builtin_tools %}
            {{- "<|python_tag|>" + tool_call.name + ".call(" }}
            {%- for arg_name, arg_val in tool_call.arguments | items %}
                {{- arg_name + '="' + arg_val + '"' }}
                {%- if not loop.last %}{{- ", " }}{%- endif %}
            {%- endfor %}
            {{- ")" }}
        {%- else %}
            {{- '{"name": "' + tool_call.name + '", "parameters": ' }}
            {{- tool_call.arguments | tojson }}
            {{- "}" }}
        {%- endif %}
        {{- "<|eot_id|>" }}
    {%- else %}
        {{- "<|start_header_id|>ipython<|end_header_id|>\n\n" }}
        {%- if message.content is mapping or message.content is iterable %}
            {{- message.content | tojson }}
        {%- else %}
            {{- message.content }}
        {%- endif %}
        {{- "<|eot_id|>" }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{%- endif %}
'''

PLAIN = ("{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}"
         "{{ '<|im_start|>system\nYou answer in short sentences.<|im_end|>\n' }}{% endif %}"
         "{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}"
         "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")

CHANNELS = r'''
{#- Types of parameters, as a TypeScript signature. -#}
{%- macro type_of(spec, required) -%}
    {%- if spec.type == "array" -%}
        {%- if spec['items'] -%}
            {{- type_of(spec['items'], required) }}[]
        {%- else -%}
            any[]
        {%- endif -%}
    {%- elif spec.type is defined and spec.type is iterable and spec.type is not string and spec.type is not mapping and spec.type[0] is defined -%}
        {{- spec.type | join(" | ") }}
    {%- elif spec.oneOf -%}
        {%- for variant in spec.oneOf -%}
            {{- type_of(variant, required) -}}{%- if not loop.last %} | {% endif -%}
        {%- endfor -%}
    {%- elif spec.type == "string" -%}
        {%- if spec.enum -%}"{{ spec.enum | join('" | "') }}"{%- else -%}string{%- endif -%}
        {%- if spec.nullable %} | null{%- endif -%}
    {%- elif spec.type == "number" or spec.type == "integer" -%}
        number
    {%- elif spec.type == "boolean" -%}
        boolean
    {%- elif spec.type == "object" -%}
        {%- if spec.properties -%}
            {{- "{\n" }}
            {%- for name, inner in spec.properties.items() -%}
                {{- name -}}{%- if name not in (spec.required or []) -%}?{%- endif -%}{{- ": " }}{{- type_of(inner, spec.required or []) }}
                {%- if not loop.last -%}, {% endif -%}
            {%- endfor -%}
            {{- "}" }}
        {%- else -%}
            object
        {%- endif -%}
    {%- else -%}
        any
    {%- endif -%}
{%- endmacro -%}
{%- macro functions(space, tools) -%}
    {{- "## " + space + "\n\nnamespace " + space + " {\n\n" }}
    {%- for tool in tools %}
        {%- set tool = tool.function %}
        {{- "// " + tool.description + "\n" }}
        {{- "type " + tool.name + " = " }}
        {%- if tool.parameters and tool.parameters.properties %}
            {{- "(_: {\n" }}
            {%- for name, spec in tool.parameters.properties.items() %}
                {%- if spec.description %}{{- "// " + spec.description + "\n" }}{%- endif %}
                {{- name }}{%- if name not in (tool.parameters.required or []) %}?{%- endif %}: {{ type_of(spec, []) }}
                {%- if spec.default is defined %}, // default: {% if spec.default is string %}"{{ spec.default }}"{% else %}{{ spec.default }}{% endif %}{%- endif %}
                {{- ",\n" if not loop.last else "\n" }}
            {%- endfor %}
            {{- "}) => any;\n\n" }}
        {%- else %}
            {{- "() => any;\n\n" }}
        {%- endif %}
    {%- endfor %}
    {{- "} // namespace " + space }}
{%- endmacro -%}
{%- macro system() -%}
    {%- if model_identity is not defined %}{%- set model_identity = "You are a helpful model." %}{%- endif %}
    {{- model_identity + "\n" }}
    {{- "Current date: " + strftime_now("%Y-%m-%d") + "\n\n" }}
    {%- if reasoning_effort is not defined %}{%- set reasoning_effort = "medium" %}{%- endif %}
    {{- "Reasoning: " + reasoning_effort + "\n\n" }}
    {%- if builtin_tools is defined and builtin_tools is not none %}
        {{- "# Tools\n\n" }}{{- "browser" if "browser" in builtin_tools }}{{- "python" if "python" in builtin_tools }}
    {%- endif -%}
    {{- "# Valid channels: analysis, commentary, final." }}
    {%- if tools %}{{- "\nCalls go to the commentary channel." }}{%- endif %}
{%- endmacro -%}
{{- "<|start|>system<|message|>" }}{{- system() }}{{- "<|end|>" }}
{%- if messages[0].role == "developer" or messages[0].role == "system" %}
    {%- set developer_message = messages[0].content %}{%- set loop_messages = messages[1:] %}
{%- else %}
    {%- set developer_message = "" %}{%- set loop_messages = messages %}
{%- endif %}
{%- if developer_message or tools %}
    {{- "<|start|>developer<|message|>" }}
    {%- if developer_message %}{{- "# Instructions\n\n" }}{{- developer_message }}{{- "\n\n" }}{%- endif %}
    {%- if tools -%}{{- "# Tools\n\n" }}{{- functions("functions", tools) }}{%- endif -%}
    {{- "<|end|>" }}
{%- endif %}
{%- set last_tool_call = namespace(name=none) %}
{%- for message in loop_messages -%}
    {%- if message.role == 'assistant' -%}
        {%- if "content" in message and message.content is string %}
            {%- if "<|channel|>analysis<|message|>" in message.content or "<|channel|>final<|message|>" in message.content %}
                {{- raise_exception("channel tags belong into the thinking field") }}
            {%- endif %}
        {%- endif %}
        {%- if "tool_calls" in message %}
            {%- set future_final = namespace(found=false) %}
            {%- for later in loop_messages[loop.index:] %}
                {%- if later.role == 'assistant' and "tool_calls" not in later %}{%- set future_final.found = true %}{%- endif %}
            {%- endfor %}
            {%- set tool_call = message.tool_calls[0] %}
            {%- if tool_call.function %}{%- set tool_call = tool_call.function %}{%- endif %}
            {%- if message.thinking and not future_final.found %}
                {{- "<|start|>assistant<|channel|>analysis<|message|>" + message.thinking + "<|end|>" }}
            {%- endif %}
            {{- "<|start|>assistant to=" }}
            {{- "functions." + tool_call.name + "<|channel|>commentary " }}
            {{- (tool_call.content_type if tool_call.content_type is defined else "json") + "<|message|>" }}
            {{- tool_call.arguments | tojson }}
            {{- "<|call|>" }}
            {%- set last_tool_call.name = tool_call.name %}
        {%- elif loop.last and not add_generation_prompt %}
            {%- if "thinking" in message %}{{- "<|start|>assistant<|channel|>analysis<|message|>" + message.thinking + "<|end|>" }}{%- endif %}
            {{- "<|start|>assistant<|channel|>final<|message|>" + message.content + "<|return|>" }}
        {%- else %}
            {{- "<|start|>assistant<|channel|>final<|message|>" + message.content + "<|end|>" }}
            {%- set last_tool_call.name = none %}
        {%- endif %}
    {%- elif message.role == 'tool' -%}
        {%- if last_tool_call.name is none %}{{- raise_exception("a tool answered that nobody called") }}{%- endif %}
        {{- "<|start|>functions." + last_tool_call.name }}
        {{- " to=assistant<|channel|>commentary<|message|>" + message.content | tojson + "<|end|>" }}
    {%- elif message.role == 'user' -%}
        {{- "<|start|>user<|message|>" + message.content + "<|end|>" }}
    {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}<|start|>assistant{%- endif -%}
'''

BRACKETS = r'''
{%- if messages and messages[0]["role"] == "system" %}
    {%- set system_message = messages[0]["content"] %}
    {%- set loop_messages = messages[1:] %}
{%- else %}
    {%- set loop_messages = messages %}
{%- endif %}
{%- if not tools is defined %}{%- set tools = none %}{%- endif %}
{%- set user_messages = loop_messages | selectattr("role", "equalto", "user") | list %}
{#- User and assistant must take turns. #}
{%- set ns = namespace() %}
{%- set ns.index = 0 %}
{%- for message in loop_messages %}
    {%- if not (message.role == "tool" or message.role == "tool_results" or (message.tool_calls is defined and message.tool_calls is not none)) %}
        {%- if (message["role"] == "user") != (ns.index % 2 == 0) %}
            {{- raise_exception("roles must alternate") }}
        {%- endif %}
        {%- set ns.index = ns.index + 1 %}
    {%- endif %}
{%- endfor %}
{{- bos_token }}
{%- for message in loop_messages %}
    {%- if message["role"] == "user" %}
        {%- if tools is not none and (message == user_messages[-1]) %}
            {{- "[AVAILABLE_TOOLS] [" }}
            {%- for tool in tools %}
                {%- set tool = tool.function %}
                {{- '{"type": "function", "function": {' }}
                {%- for key, val in tool.items() if key != "return" %}
                    {%- if val is string %}{{- '"' + key + '": "' + val + '"' }}{%- else %}{{- '"' + key + '": ' + val | tojson }}{%- endif %}
                    {%- if not loop.last %}{{- ", " }}{%- endif %}
                {%- endfor %}
                {{- "}}" }}
                {%- if not loop.last %}{{- ", " }}{%- else %}{{- "]" }}{%- endif %}
            {%- endfor %}
            {{- "[/AVAILABLE_TOOLS]" }}
        {%- endif %}
        {%- if loop.last and system_message is defined %}
            {{- "[INST] " + system_message + "\n\n" + message["content"] + "[/INST]" }}
        {%- else %}
            {{- "[INST] " + message["content"] + "[/INST]" }}
        {%- endif %}
    {%- elif message.tool_calls is defined and message.tool_calls is not none %}
        {{- "[TOOL_CALLS] [" }}
        {%- for tool_call in message.tool_calls %}
            {%- set out = tool_call.function | tojson %}
            {{- out[:-1] }}
            {%- if not tool_call.id is defined or tool_call.id | length != 9 %}
                {{- raise_exception("a call needs an id of 9 characters") }}
            {%- endif %}
            {{- ', "id": "' + tool_call.id + '"}' }}
            {%- if not loop.last %}{{- ", " }}{%- else %}{{- "]" + eos_token }}{%- endif %}
        {%- endfor %}
    {%- elif message["role"] == "assistant" %}
        {{- " " + message["content"] | trim + eos_token }}
    {%- elif message["role"] == "tool" %}
        {%- set content = message.content.content if message.content is mapping and message.content.content is defined else message.content %}
        {{- '[TOOL_RESULTS] {"content": ' + content | string + ", " }}
        {{- '"call_id": "' + message.get("tool_call_id", "none") + '"}[/TOOL_RESULTS]' }}
    {%- else %}
        {{- raise_exception("unknown role") }}
    {%- endif %}
{%- endfor %}
'''

PATTERN = r'''{{ bos_token }}
{%- for message in messages %}
{%- if message['role'] == 'user' and message.content is not string %}
{{ '<|header|>user' }}
{%- for part in message.content -%}
{%- if part['type'] == 'image' %}{{ '<|image|>' }}{% elif part['type'] == 'text' %}{{ part['text'] | trim }}{% endif %}
{%- endfor %}
{%- elif message.tool_calls is defined and message.tool_calls | length > 0 %}
{{ '<|header|>assistant<|python_start|>' }}
{%- if message.content is string %}{{ message.content }}{% endif %}
{%- for call in message.tool_calls %}
{{ '{"name": "' + call.function.name + '", ' }}{{ '"parameters": ' + (call.function.arguments | tojson) + '}' }}
{%- endfor %}
{{ '<|python_end|>' }}
{%- else %}
{% generation %}
{{ '<|header|>' ~ message.role ~ '\n' }}{{ message.content }}
{% endgeneration %}
{%- endif %}{{ '<|eot|>' }}
{%- endfor %}
{%- if add_generation_prompt %}
{{ '<|header|>assistant\n\n' }}
{%- endif %}'''

STYLES = {"thinking": THINKING, "parts": PARTS, "headers": HEADERS, "plain": PLAIN, "channels": CHANNELS,
          "brackets": BRACKETS, "pattern": PATTERN}

TOOLS = [
    {"type": "function", "function": {
        "name": "get_weather", "description": "Weather at a place.",
        "parameters": {"type": "object", "required": ["city"], "properties": {
            "city": {"type": "string", "description": "Name of the place, e.g. \"Köln\""},
            "unit": {"type": "string", "enum": ["C", "F"], "default": "C"},
            "days": {"type": "array", "items": {"type": "integer"}},
            "where": {"oneOf": [{"type": "number"}, {"type": "object", "properties": {"lat": {"type": "number"}}}]},
            "exact": {"type": "boolean", "default": False}, "tags": {"type": ["string", "null"]}}}}},
    {"type": "function", "function": {"name": "now", "description": "The time.", "parameters": {"type": "object", "properties": {}}}},
]


def call(name, arguments, wrapped=True):
    return {"id": "abcdefghi", "type": "function", "function": {"name": name, "arguments": arguments}} if wrapped else {
        "id": "abcdefghi", "name": name, "arguments": arguments}


SYSTEM = {"role": "system", "content": "  You are terse. <|im_end|> Ünïcode 東京\n"}
USER = {"role": "user", "content": "What is 2 < 3 && \"x\"?\n"}
ANSWER = {"role": "assistant", "content": "  It's true.  "}
AGAIN = {"role": "user", "content": "And 😀?"}
THOUGHT = {"role": "assistant", "content": "<think>\nhm, let me see\n\n</think>\n\nYes."}
REASONED = {"role": "assistant", "content": "Done.", "reasoning_content": "because\n", "thinking": "because\n"}
CALL = {"role": "assistant", "content": "", "tool_calls": [call("get_weather", {"city": "Köln", "days": [1, 2], "exact": True, "x": None})]}
CALL_SAYING = {"role": "assistant", "content": "Let me look.", "thinking": "weather", "tool_calls": [call("now", {})]}
CALLS = {"role": "assistant", "content": "", "tool_calls": [call("get_weather", {"city": "a\"b"}), call("now", "{\"raw\": 1}", False)]}
RESULT = {"role": "tool", "content": "{\"t\": 21.5}", "tool_call_id": "abcdefghi"}
RESULT2 = {"role": "tool", "content": "12:00"}
LISTED = {"role": "user", "content": [{"type": "text", "text": " look: "}, {"type": "image"}, {"type": "text", "text": "what?"}]}
ODD = {"role": "user", "content": [{"type": "audio"}]}

CONVERSATIONS = {
    "one": [USER], "system": [SYSTEM, USER], "turns": [USER, ANSWER, AGAIN], "system_turns": [SYSTEM, USER, ANSWER, AGAIN, ANSWER, USER],
    "closed": [USER, ANSWER], "thought": [USER, THOUGHT, AGAIN], "thought_last": [SYSTEM, USER, THOUGHT], "reasoned": [USER, REASONED, AGAIN, REASONED],
    "call": [SYSTEM, USER, CALL], "call_result": [USER, CALL, RESULT], "call_answered": [SYSTEM, USER, CALL, RESULT, ANSWER, AGAIN],
    "call_saying": [USER, CALL_SAYING, RESULT, REASONED], "calls": [USER, CALLS, RESULT, RESULT2, ANSWER], "listed": [LISTED], "listed_system": [SYSTEM, LISTED, ANSWER, AGAIN],
    "odd_part": [ODD], "empty": [], "only_system": [SYSTEM], "wrong_order": [USER, USER], "late_system": [USER, SYSTEM, USER], "developer": [{"role": "developer", "content": "Rules."}, USER],
    "no_content": [{"role": "user"}], "null_content": [USER, {"role": "assistant", "content": None}], "number": [{"role": "user", "content": 5}],
}

EXTRAS = [
    {}, {"enable_thinking": False}, {"enable_thinking": True, "number_images": True},
    {"reasoning_effort": "high", "model_identity": "You are X.", "builtin_tools": ["browser", "python"], "date_string": "1 Jan 2030"},
    {"builtin_tools": ["code_interpreter", "get_weather"], "tools_in_user_message": False},
]


def cases():
    """(style, conversation, with tools, generation prompt, index into EXTRAS)"""
    for style in STYLES:
        for name in CONVERSATIONS:
            for tools, prompt in ((False, True), (False, False), (True, True)):
                yield style, name, tools, prompt, 0
        for extra in range(1, len(EXTRAS)):
            for name in ("system_turns", "call_answered", "listed_system"):
                for tools in (False, True):
                    yield style, name, tools, True, extra


def variables(name, tools, prompt, extra):
    return {"messages": CONVERSATIONS[name], "tools": TOOLS if tools else None, "add_generation_prompt": prompt,
            "bos_token": "<s>", "eos_token": "</s>"} | EXTRAS[extra]
