"""Small templates for tools/golden/template.py: every construct and every rule of meaning that chat
templates rely on. A case is (template, variables); a bare string in EXPRESSIONS is what stands
between {{ and }}."""

DATA = {
    "n": None, "t": True, "f": False, "zero": 0, "one": 1, "neg": -7, "big": 9007199254740993,
    "pi": 3.14159, "tiny": 1.5e-7, "huge": 1e20, "half": 2.5,
    "s": "Hello World", "empty": "", "q": "it's", "dq": 'say "hi"', "both": "a'b\"c", "nl": "a\nb\r\nc\n",
    "uni": "Größe 東京 😀 ñ", "sp": "  \t x y \n ", "html": "<b>&'\"</b>", "num": "42", "dec": "42.7",
    "l": [3, 1, 2], "ls": ["b", "A", "c", "a"], "le": [], "mixed": [1, "a", None, True, 2.5, [1], {"k": "v"}],
    "d": {"a": 1, "b": {"c": [1, 2, {"e": "f"}]}, "items": "own", "x y": 2}, "de": {},
    "users": [{"name": "Bob", "age": 30, "ok": True}, {"name": "alice", "age": 25, "ok": False},
              {"name": "Carol", "age": 30}],
    "nested": [[1, 2], [3, 4]], "k1": {"1": "one", "true": "yes"},
    "tree": [{"v": 1, "c": [{"v": 2, "c": []}, {"v": 3, "c": [{"v": 4, "c": []}]}]}],
}

EXPRESSIONS = r"""
none
true
false
True
None
n
t
f
1
0
-5
1_000
0x1F
0o17
0b101
1.5
1e3
1.5e-3
1e16
1e15
123456789012345.0
1e22
1e-5
0.0001
0.1 + 0.2
100.0
-0.0
2.50
1/3
huge
tiny
half
pi
big
'a'
"a"
'it\'s'
'a\tb\\n'
'\x41\u00e9\U0001F600\101'
'a' 'b' "c"
'a' ~ 1 ~ none ~ true ~ 1.0
'a' ~ undefined_name
undefined_name
[1, 'a', none, true]
[1, 'a', None, True, 1.0, undefined_name]
(1, 2)
(1,)
()
(1)
[]
{}
{'a': 1, "b": [1, {'c': none}]}
{1: 'x', none: 'y', true: 'z', 2.5: 'w'}
{'a': 1, 'a': 2}
['it\'s', 'say "hi"', 'a\'b"c', 'a\nb\t\\']
[uni]
['\x00\x7f\xa0\u200b']
mixed
d
users
nested
7 / 2
6 / 2
7 // 2
-7 // 2
7 // -2
7.5 // 2
-7.5 // 2
7 % 3
-7 % 3
7 % -3
7.5 % 2
-7.5 % 2
2 ** 10
2 ** -1
2 ** 0.5
-2 ** 2
2 ** 3 ** 2
4 ** 0.5
1 + 2 * 3
(1 + 2) * 3
1 - 2 - 3
10 / 4 * 2
true + true
true * 3
1 + 1.0
3 * 'ab'
'ab' * 3
'ab' * 0
'ab' * -1
[1, 2] * 2
[1] + [2]
(1,) + (2, 3)
'a' + 'b'
1 + 'a'
'a' + 1
'a' + none
[1] + (2,)
none + 1
undefined_name + 'a'
'a' + undefined_name
undefined_name * 2
-undefined_name
undefined_name < 1
undefined_name.x
undefined_name['x']
undefined_name[1:]
undefined_name()
undefined_name == undefined_other
undefined_name == none
undefined_name != 1
not undefined_name
undefined_name or 'x'
undefined_name and 'x'
1 / 0
1 // 0
1 % 0
1.0 / 0
0 ** -1
-l
+one
-one
+t
-t
- 5 | abs
1 == 1.0
true == 1
'1' == 1
none == false
[1, 2] == [1, 2]
[1] == (1,)
{'a': 1, 'b': 2} == {'b': 2, 'a': 1}
1 != 2
1 < 2
1 < 2 < 3
1 < 3 < 2
3 > 2 > 1
1 < 2 > 1
1 == 1 == 1
1 <= 1 >= 1
'a' < 'b'
'a' < 'B'
'Z' < 'a'
'é' > 'z'
[1, 2] < [1, 3]
[1] < [1, 0]
[] < [1]
(1, 'a') < (1, 'b')
'a' < 1
none < 1
[1] < 'a'
{} < {}
1 in [1, 2]
3 not in [1, 2]
not 3 in [1, 2]
'el' in s
'xyz' in s
'' in ''
'a' in d
'z' in d
'z' not in d
1 in (1, 2)
1 in 'abc'
none in 'abc'
'a' in none
'a' in 5
'x' in undefined_name
undefined_name in [1]
undefined_name in 'abc'
[1] in [[1]]
[1] in d
1.0 in [1]
1 in true
'a' in {'a': 1}.keys()
1 in {'a': 1}.values()
2 in range(3)
true and false
true or false
not true
not 0
not ''
not []
not 'a'
1 and 2
0 and 2
0 or 'x'
'' or none
1 or undefined_name.x
1 if true
1 if false
1 if true else 2
1 if false else 2
1 if '' else 2 if 0 else 3
'a' if undefined_name else 'b'
('a' if false) is defined
('a' if false) ~ 'b'
(1 if false) + 1
d.a
d['a']
d.b.c
d.b.c[2].e
d['b']['c'][0]
d.missing
d['missing']
d.missing.more
d.items
d['items']
d['x y']
d.get('a')
d.get('z')
d.get('z', 'dflt')
d.get('z', none) is none
d.items()
de.items()
d.keys()
d.values()
d.items() | list
d.keys() | list | length
d.pop
d.pop is defined
d.pop('a')
d.update
d.update({'a': 2})
d.clear()
l.append
l.append(4)
l.sort()
l.pop()
l.reverse is defined
l.index(1)
l.count(1)
l.index(99)
l[0]
l[-1]
l[5]
l[-9]
l['0']
l.0
l.foo
l[0.5]
l[none]
l[true]
s[0]
s[-1]
s[99]
s.foo
s['foo']
s['upper']()
n.foo
n['foo']
n.foo.bar
one.foo
one['x']
t.x
uni[2]
uni[6]
uni[-4]
uni[-3]
l[1:]
l[:1]
l[:-1]
l[::-1]
l[::2]
l[-2:]
l[5:]
l[1:0]
l[-9:]
l[:99]
l[none:2]
l[::0]
s[1:]
s[:5]
s[::-1]
s[-5:]
s[2:-2:2]
s[::-2]
uni[5:8]
uni[::-1]
uni[-3:]
(1, 2, 3)[1:]
(1, 2, 3)[::-1]
range(10)[2:5]
range(10)[::-1]
d[1:2]
n[1:]
one[0]
one[1:]
k1['1']
k1[1]
k1[true]
{1: 'a'}[1]
{1: 'a'}[true]
{1: 'a'}[1.0]
{(1, 2): 'a'}[1, 2]
{[1]: 2}
d.__class__
d.__class__ is defined
s.__class__.__mro__
d['__class__']
d._private
s.upper
s.upper()
s.lower()
s.title()
s.capitalize()
s.swapcase()
"they're bill's".title()
s.strip('Hd')
sp.strip()
sp.lstrip() ~ '|'
sp.rstrip() ~ '|'
'xxaxx'.strip('x')
'xyaxy'.lstrip('xy')
'xyaxy'.rstrip('yx')
'a'.strip(none)
s.split()
s.split(' ')
s.split('o')
s.split('o', 1)
s.split('o', maxsplit=1)
s.rsplit('o', 1)
sp.split()
' a  b '.split(' ')
'a  b  c '.split(none, 1)
' a  b  c '.split(maxsplit=2)
' a  b  c '.rsplit(none, 1)
'a b c'.rsplit(maxsplit=5)
'a,b,,c'.split(',')
''.split()
''.split(',')
s.split('')
'a-b-c'.partition('-')
'a-b-c'.rpartition('-')
'abc'.partition('-')
'abc'.rpartition('-')
nl.splitlines()
nl.splitlines(true)
'a\n\nb'.splitlines()
s.startswith('Hello')
s.startswith('World')
s.startswith('World', 6)
s.startswith(('x', 'H'))
s.startswith('')
s.endswith('World')
s.endswith('Wor')
s.endswith('Hello', 0, 5)
s.endswith(('a', 'd'))
s.startswith(1)
s.replace('o', '0')
s.replace('o', '0', 1)
s.replace('', '-')
s.replace('', '-', 2)
s.replace('l', '')
'aaa'.replace('aa', 'b')
s.find('o')
s.find('o', 5)
s.find('z')
s.rfind('o')
s.index('o')
s.index('z')
uni.find('東')
s.count('o')
s.count('')
'aaaa'.count('aa')
', '.join(['a', 'b'])
', '.join([1, 2])
''.join([])
'-'.join('abc')
s.isupper()
'ABC'.isupper()
'abc'.islower()
'1a'.islower()
''.islower()
'123'.isdigit()
'²'.isdigit()
'12a'.isdigit()
'abc'.isalpha()
'a1'.isalnum()
' '.isspace()
''.isspace()
'Title Case'.istitle()
'1'.isnumeric()
'½'.isnumeric()
'½'.isdecimal()
'abc'.isascii()
'é'.isascii()
'a'.center(5) ~ '|'
'ab'.center(5, '*')
'ab'.ljust(5, '.')
'ab'.rjust(5, '.')
'ab'.rjust(1)
'42'.zfill(5)
'-42'.zfill(5)
'a\tb'.expandtabs(4)
'prefix-x'.removeprefix('prefix-')
'x.txt'.removesuffix('.txt')
'x'.removesuffix('')
'{} {}'.format(1, 'a')
'{0} {1} {0}'.format(1, 'a')
'{a}'.format(a=5)
'{}'.format()
'{{}}'.format()
'Straße'.upper()
'ŐÉ'.lower()
'ΑΣ'.lower()
'Straße'.casefold()
'ﬁ'.upper()
'ǆ'.capitalize()
uni.upper()
uni | length
s | length
l | length
d | length
(1, 2) | count
range(5) | length
undefined_name | length
n | length
one | length
d.items() | length
s | upper
s | lower
'hello world-foo (bar) [baz] {x} <y>' | title
'hELLO' | title
"it's" | title
'hello WORLD' | capitalize
undefined_name | upper
n | upper
5 | upper
sp | trim
'xxaxx' | trim('x')
5 | trim
s | replace('l', 'L')
s | replace('l', 'L', 1)
5 | replace('5', 6)
none | replace('N', 'n')
s | center(20)
[1, 2, 3] | join
[1, 2, 3] | join(', ')
['a', none, true, 1.5] | join('|')
users | join(', ', attribute='name')
'abc' | join('-')
undefined_name | join
d | join(',')
[] | join(',')
[[1, 2], 'a'] | join(';')
5 | join
l | first
l | last
le | first
le | last
s | first
s | last
d | first
d | last
(1, 2) | last
range(3) | last
undefined_name | first
undefined_name | last
none | first
l | sort
l | sort(reverse=true)
l | sort(true)
ls | sort
ls | sort(case_sensitive=true)
users | sort(attribute='age') | map(attribute='name') | join(',')
users | sort(attribute='age,name') | map(attribute='name') | join(',')
users | sort(attribute='name', reverse=true) | map(attribute='name') | list
[1, 'a'] | sort
[[2, 1], [1, 2]] | sort(attribute=1)
nested | sort(attribute='1', reverse=true)
d | sort
'bca' | sort
none | sort
[none, 1] | sort
[true, 0, 2] | sort
{'b': 1, 'A': 2, 'c': 0} | dictsort
{'b': 1, 'A': 2, 'c': 0} | dictsort(true)
{'b': 1, 'A': 2, 'c': 0} | dictsort(false, 'value')
{'b': 1, 'A': 2} | dictsort(by='value', reverse=true)
{'b': 1} | dictsort(by='x')
[1] | dictsort
['a', 'A', 'b', 'a'] | unique | list
['a', 'A', 'b'] | unique(true) | list
users | unique(attribute='age') | map(attribute='name') | list
[1, 1.0, true, 2] | unique | list
[[1]] | unique | list
l | reverse | list
s | reverse
d | reverse | list
(1, 2) | reverse | list
5 | reverse
l | min
l | max
ls | min
ls | max
users | max(attribute='age')
[] | max
[] | min is defined
l | sum
users | sum(attribute='age')
users | sum('age', 10)
[[1], [2]] | sum(start=[])
[] | sum
['a'] | sum
ls | map('upper') | list
ls | map('upper') | join
users | map(attribute='name') | list
users | map(attribute='ok') | list
users | map(attribute='ok', default='?') | list
users | map(attribute='name.0') | list
nested | map(attribute=0) | list
nested | map('join', '-') | list
[1.5, 2.7] | map('int') | list
ls | map | list
ls | map(ls[0]) is iterable
users | selectattr('ok') | map(attribute='name') | list
users | selectattr('age', 'equalto', 30) | map(attribute='name') | list
users | selectattr('age', '==', 30) | list | length
users | selectattr('age', 'gt', 26) | list | length
users | selectattr('ok', 'defined') | list | length
users | selectattr('name', 'in', ['Bob']) | list | length
users | rejectattr('ok') | map(attribute='name') | list
users | rejectattr('age', 'equalto', 30) | map(attribute='name') | list
users | selectattr('ok', 'undefined') | map(attribute='name') | first
[1, 2, 3, 4] | select('odd') | list
[1, 2, 3, 4] | reject('odd') | list
[1, 2, 3, 4] | select('divisibleby', 2) | list
[0, 1, '', 'a', none] | select | list
[0, 1, '', 'a', none] | reject | list
['a', 1] | select('string') | list
users | selectattr | list
(users | selectattr('nope')) is sequence
(users | selectattr('nope')) | length
'yes' if users | selectattr('nope') else 'no'
(l | map('string'))[0]
l | map('string') | last
l | map('string') | first
[1, 2, 3, 4, 5] | batch(2) | list
[1, 2, 3, 4, 5] | batch(2, 'x') | list
[1, 2, 3, 4, 5] | slice(2) | list
[1, 2, 3, 4, 5] | slice(3, 'x') | list
[] | batch(2) | list
d | items | list
undefined_name | items | list
l | items | list
users | groupby('age')
users | groupby('age') | map(attribute='grouper') | list
users | groupby('name') | map(attribute='grouper') | list
users | groupby('ok', default=false) | map('first') | list
'abc' | list
d | list
5 | list
none | list
undefined_name | list
l | string
n | string ~ '!'
undefined_name | string ~ '!'
d | string
1.0 | string
undefined_name | default('x')
n | default('x')
n | default('x', true)
'' | default('x')
'' | default('x', true)
'' | d('x', boolean=true)
undefined_name | default
0 | default(5, true)
d.missing | default('x')
d.missing.more | default('x')
num | int
dec | int
'abc' | int
'abc' | int(-1)
'abc' | int(default=7)
'0x1A' | int(0, 16)
'1A' | int(base=16)
'ff' | int(0, 16)
'101' | int(0, 2)
'0b101' | int(0, 2)
'0o17' | int(0, 0)
' 42 ' | int
'4_2' | int
'4__2' | int
'-7' | int
'+7' | int
'1e3' | int
'inf' | int
'nan' | int(3)
2.9 | int
-2.9 | int
true | int
none | int
none | int(5)
[] | int
'' | int
undefined_name | int
num | float
'abc' | float
'abc' | float(1.5)
'1e3' | float
' 1.5 ' | float
'1_0.5' | float
'.5' | float
'5.' | float
'inf' | float
'-Infinity' | float
'nan' | float
5 | float
none | float
true | float
-5 | abs
-5.5 | abs
true | abs
'a' | abs
none | abs
42.55 | round
42.55 | round(1)
42.45 | round(1)
2.5 | round
3.5 | round
-2.5 | round
0.5 | round
1234.567 | round(-2)
42 | round
1250 | round(-2)
1350 | round(-2)
42.55 | round(1, 'floor')
42.51 | round(1, 'ceil')
42.1 | round(0, 'ceil')
42 | round(method='floor')
42.1 | round(1, 'nope')
'a' | round
1e300 | round(2)
html | escape
html | e
html | forceescape
html | safe
(html | e) | e
(html | e) + '<i>'
'<i>' + ('<b>' | safe)
('<b>' | safe) ~ '<i>'
('<b>' | safe) is escaped
html is escaped
('<b>' | safe) * 2
('<b>' | safe).upper()
('<b>' | safe).replace('b', '<')
('<b>' | safe) | replace('b', '<')
('-' | safe).join(['<', 'a'])
['<' | safe]
['<' | safe] | join('>')
('<b>' | safe)[1:] + '<'
('a<b' | safe).split('<') | first + '<'
('<b>' | safe | string) + '<'
('<b>' | safe) == '<b>'
'%s %s' % ('a', 1)
'%d' % 5
'%5d|' % 5
'%-5d|' % 5
'%05d' % 5
'%+d' % 5
'%x %X %o' % (255, 255, 8)
'%.2f' % 3.14159
'%8.3f|' % 3.14159
'%e' % 12345.678
'%g %g' % (0.00001, 123456789)
'%s' % none
'%s' % [1, 2]
'%r' % 'a'
'%s %s' % 'a'
'%s' % ('a', 'b')
'%d' % 'a'
'%%' % ()
'%(a)s' % {'a': 1}
'%(z)s' % {'a': 1}
'%5s|%-5s|%.2s' % ('a', 'b', 'cde')
'%s' % undefined_name
'%s, %s!' | format('a', 'b')
'%(x)s' | format(x=1)
'abc' % ()
'abc' % 5
'abc' % [1]
'abc' % d
'abc' % range(2)
'abc' % undefined_name
'abc' % 'x'
'abc' % none
(html | e) | list | first
(html | e)[0]
[('ab' | safe) | first]
[('ab' | safe) | last]
[('ab' | safe)[1]]
('a' | safe).split('b')
'a\nb\n\nc' | indent
'a\nb\n\nc' | indent(2)
'a\nb\n\nc' | indent(2, true)
'a\nb\n\nc' | indent(2, true, true)
'a\nb' | indent('> ')
'a\nb' | indent(width=1, first=true)
'a\nb\n' | indent ~ '|'
'' | indent
5 | indent
'foo bar baz qux' | truncate(9)
'foo bar baz qux' | truncate(9, true)
'foo bar baz qux' | truncate(11)
'foo bar baz qux' | truncate(11, false, '...', 0)
'foo bar baz' | wordcount
'' | wordcount
s | attr('upper') is defined
d | attr('a') is defined
d | attr('nope')
s | tojson
uni | tojson
both | tojson
nl | tojson
'\x00\x1f\x7f\b\f/' | tojson
n | tojson
t | tojson
5 | tojson
1.5 | tojson
1e20 | tojson
'nan' | float | tojson
'inf' | float | tojson
l | tojson
d | tojson
de | tojson
le | tojson
mixed | tojson
users | tojson
users | tojson(indent=2)
d | tojson(indent=4)
d | tojson(indent=0)
d | tojson(indent='--')
d | tojson(indent=none)
le | tojson(indent=2)
[[], {}] | tojson(indent=2)
d | tojson(separators=(',', ':'))
d | tojson(indent=2, separators=(',', ': '))
{'b': 1, 'a': 2} | tojson(sort_keys=true)
uni | tojson(ensure_ascii=true)
uni | tojson(true)
{1: 2, none: 3, true: 4, 2.5: 5} | tojson
{1: 2, 'a': 3} | tojson(sort_keys=true)
(1, 2) | tojson
range(3) | tojson
undefined_name | tojson
d.items() | tojson
l | map('string') | tojson
html | tojson
html | tojson | safe
{(1, 2): 3} | tojson
n is none
undefined_name is none
undefined_name is defined
n is defined
undefined_name is undefined
d.missing is defined
d.a is defined
undefined_name is not defined
s is string
one is string
one is number
pi is number
t is number
n is number
s is number
one is integer
t is integer
pi is integer
pi is float
one is float
t is boolean
one is boolean
t is true
one is true
f is false
zero is false
n is false
d is mapping
l is mapping
d is iterable
s is iterable
one is iterable
undefined_name is iterable
d is sequence
s is sequence
l is sequence
one is sequence
undefined_name is sequence
(1, 2) is sequence
range(2) is sequence
d.items() is sequence
d.items() is iterable
range is callable
s is callable
s.upper is callable
undefined_name is callable
namespace is callable
1 is odd
2 is even
2 is odd
-1 is odd
1.5 is odd
'a' is odd
6 is divisibleby 3
6 is divisibleby(4)
6 is divisibleby 0
'abc' is lower
'ABC' is upper
'aBc' is lower
5 is lower
1 is eq 1
1 is equalto 2
1 is ne 2
1 is lt 2
1 is gt(2)
1 is ge 1
1 is le(0)
1 is lessthan 2
1 is greaterthan 2
1 is in [1, 2]
3 is not in [1, 2]
'a' is in 'abc'
t is sameas true
n is sameas none
t is sameas 1
'upper' is filter
'nope_filter' is filter
'odd' is test
'nope_test' is test
1 is not odd
not 1 is odd
1 is odd and 2 is even
1 is odd or 2 is odd
d.a is defined and d.a is number
(1 is odd) ~ 'x'
1 + 1 is odd
l is sequence and l is not string
range(5)
range(1, 5) | list
range(0, 10, 3) | list
range(5, 0, -2) | list
range(0) | list
range(5)[1]
range(5)[-1]
range(5)[9]
range(0, 10, 2)
range(100000) | length
range(100001) | length
range(1, 2, 0)
range('a')
range()
range(3) == range(0, 3)
range(3) == [0, 1, 2]
dict(a=1, b=2)
dict([('a', 1), ('b', 2)])
dict({'a': 1}, b=2)
dict()
namespace(a=1)
namespace(a=1).a
namespace({'a': 1}).a
namespace().missing
namespace(a=1)['a']
namespace(_x=1)
namespace(a=1).items is defined
raise_exception('no')
raise_exception()
strftime_now('%Y-%m-%d')
strftime_now('%d %b %Y')
strftime_now('%A %B %j %H:%M:%S %p %I %y %U %w')
strftime_now('%-d %e %F %T %%')
strftime_now('%Z|%z|%f')
strftime_now('')
no_such_name is defined and no_such_name()
l ~ d
1 ~ 2
'a' ~ 'b' ~ 3 + 4
2 * 3 ~ 'x'
'x' ~ -1
1 if 2 > 1 and not false else 0
{'a': 1}.a
{'a': {'b': [1, 2]}}.a.b[1]
[1, 2, 3][1]
'abc'[1]
('abc' | upper)[0]
'abc' | upper | lower | title
'a,b' | upper | replace(',', ';')
[1, 2, 3,]
{'a': 1,}
d.b.c | length > 2
(d.b.c | length) > 2
users[0].name
users[-1]['name']
users[0]['na' ~ 'me']
users | length - 1
loop is defined
self_name is defined
caller is defined
s.split(' ')[-1].lower()
s.split('</think>')[-1].lstrip('\n')
'a</think>\n\nb'.split('</think>')[0].rstrip('\n').split('<think>')[-1].lstrip('\n')
'%s' | format(s | tojson)
9223372036854775807
-9223372036854775807 - 1
1 // 3 * 3 + 1 % 3
'a' if 1 else 'b' ~ 'c'
[1, [2, [3, [4]]]] | tojson(indent=1)
'\d'
'a\
b'
"\N" is defined
s.upper.__name__
lambda
1 +
(1
[1
{'a' 1}
{{ 1 }}
1 2
'unclosed
a b
a.
a[
a|
a is
1 is is 2
f(a=1, 2)
f(*l, 1)
not
@
$x
a!b
x = 1
007
1..2
'a'.b.c
""" .strip("\n").split("\n")

STATEMENTS = [
    # Text, comments, white space.
    "", "plain", "plain\n", "plain\n\n", "a\r\nb\rc\n", "{", "{ {", "{}", "a { b } c", "{{ '{{' }}", "#}{#  #}x",
    "a{# comment #}b", "a{# multi\nline #}b", "a\n{# own line #}\nb", "a\n  {# own line #}\nb", "a {#- x -#} b", "{# unclosed",
    "a{#+ x +#}\nb", "  {# x +#}\nb", "{##}", "{#-#}x", "a {#-#} b",
    "{% if true %}\nx\n{% endif %}\n", "  {% if true %}\n  x\n  {% endif %}\n", "  {%+ if true %}\n  x\n  {%+ endif %}\n",
    "a {%- if true %} x {% endif -%} b", "a\n\n  {%- if true -%}\n\n x \n\n {%- endif -%}\n\n b", "{% if true +%}\nx{% endif %}",
    "a  {{ 1 }}  b", "a  {{- 1 -}}  b", "a\n{{ 1 }}\nb", "a\n  {{ 1 }}\n  b", "a\n{{- 1 -}}\nb", "a {{+ 1 }} b",
    "\t{% if true %}x{% endif %}\n", "x {% if true %}\n y{% endif %}", "{% if true %}{% endif %}\n\nx", "{% if true %}\n\n\nx{% endif %}",
    "a\n \t {% if true %}\n \t b\n \t {% endif %}\n \t c", "{{ 1 }}\n", "{{ 1 }}\n\n", "{% if true %}1{% endif %}\n", "{%if true%}1{%endif%}", "{{1}}{{2}}",
    "{% raw %}{{ x }} {% if %} {# c #}{% endraw %}", "{%- raw -%}  a  {%- endraw -%}  b", "{% raw %}\n x \n{% endraw %}\ny", "  {% raw %}\n  x\n  {% endraw %}\n  y",
    "{% raw %}unclosed", "a {%+ raw %} x {%+ endraw +%}\n b", "{%raw%}{%{%endraw%}",
    "{{ '\n' }}", "{{ 'a\r\nb' }}", "{% set x = '\n' %}[{{ x }}]", "{{ \"a\" }}{{ 'b' }}", "{{ {'a': {'b': 1}}}}", "{{ {'a': {'b': 1}} }}", "{{ '}}' }}", "{% if '%}' %}x{% endif %}",
    "x\n{% set a = 1 %}\n{% set b = 2 %}\ny", "line1\n{%- set a = 1 %}\nline2", "line1\n{% set a = 1 -%}\nline2", "{{ 1 -}}\n\n x", "x \n\n {{- 1 }}", "\u00a0{%- set a = 1 -%}\u3000x",
    # if
    "{% if f %}a{% elif t %}b{% else %}c{% endif %}", "{% if f %}a{% elif f %}b{% else %}c{% endif %}", "{% if f %}a{% endif %}", "{% if n is none and not t %}a{% else %}b{% endif %}",
    "{% if undefined_name %}a{% else %}b{% endif %}", "{% if l %}{% if d %}x{% endif %}{% endif %}", "{% if 1, %}x{% endif %}", "{% if t %}", "{% endif %}", "{% if %}x{% endif %}", "{% if t %}a{% else %}b{% else %}c{% endif %}",
    "{% elif t %}", "{% if t: %}a{% endif %}", "{% if (1 if t else 0) %}a{% endif %}",
    # for
    "{% for x in l %}{{ x }},{% endfor %}", "{% for x in le %}{{ x }}{% else %}empty{% endfor %}", "{% for x in l %}{{ x }}{% else %}empty{% endfor %}", "{% for k in d %}{{ k }};{% endfor %}",
    "{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}", "{% for k, v in d | items %}{{ k }}={{ v }};{% endfor %}", "{% for k, v in d | dictsort %}{{ k }};{% endfor %}", "{% for c in uni %}[{{ c }}]{% endfor %}",
    "{% for x in undefined_name %}x{% else %}none{% endfor %}", "{% for x in n %}x{% endfor %}", "{% for x in 5 %}x{% endfor %}", "{% for x in l if x > 1 %}{{ x }}{% endfor %}", "{% for x in l if x > 9 %}{{ x }}{% else %}no{% endfor %}",
    "{% for x in l if x != 1 %}{{ loop.index }}/{{ loop.length }}:{{ x }} {% endfor %}", "{% for a, b in nested %}{{ a }}-{{ b }} {% endfor %}", "{% for (a, b) in nested %}{{ a }}-{{ b }} {% endfor %}",
    "{% for a, b in [1] %}x{% endfor %}", "{% for a, b in [[1, 2, 3]] %}x{% endfor %}", "{% for a, b in ['xy', 'zw'] %}{{ a }}{{ b }}{% endfor %}", "{% for a, (b, c) in [[1, [2, 3]]] %}{{ a }}{{ b }}{{ c }}{% endfor %}",
    "{% for x in 1, 2, 3 %}{{ x }}{% endfor %}", "{% for x in (1, 2) %}{{ x }}{% endfor %}", "{% for x in range(3) %}{{ x }}{% endfor %}", "{% for x in l[::-1] %}{{ x }}{% endfor %}", "{% for x in l | sort | reverse %}{{ x }}{% endfor %}",
    "{% for x in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.depth }}{{ loop.depth0 }} {% endfor %}",
    "{% for x in l %}{{ loop.previtem }}<{{ x }}>{{ loop.nextitem }} {% endfor %}", "{% for x in l %}{{ loop.previtem is defined }}{{ loop.nextitem is defined }} {% endfor %}", "{% for x in l %}{{ loop.previtem.foo }}{% endfor %}",
    "{% for x in l %}{{ loop.cycle('a', 'b') }}{% endfor %}", "{% for x in [1, 1, 2, 2, 1] %}{{ loop.changed(x) }} {% endfor %}", "{% for x in [1] %}{{ loop.nope is defined }}{{ loop['index'] }}{{ loop }}{% endfor %}",
    "{% for x in l | map('string') %}{{ loop.last }}{{ loop.length }}{{ x }} {% endfor %}", "{% for x in l | select('odd') %}{{ loop.index }}{{ x }}{% if not loop.last %},{% endif %}{% endfor %}",
    "{% for x in l %}{% for y in nested %}{{ loop.index }}{% endfor %}{{ loop.index }};{% endfor %}", "{% for x in l %}{% set outer = loop %}{% for y in [1, 2] %}{{ outer.index }}.{{ loop.index }} {% endfor %}{% endfor %}",
    "{% for x in l %}{% if x == 1 %}{% break %}{% endif %}{{ x }}{% endfor %}", "{% for x in l %}{% if x == 1 %}{% continue %}{% endif %}{{ x }}{% endfor %}", "{% for x in l %}{% break %}{% else %}e{% endfor %}", "{% for x in l %}{% continue %}{% else %}e{% endfor %}",
    "{% for x in l %}{{ x }}{% if x == 1 %}{% break %}{% endif %}{% else %}e{% endfor %}", "{% for x in [1, 2] %}{% for y in [1, 2, 3] %}{% if y == 2 %}{% break %}{% endif %}{{ x }}{{ y }} {% endfor %}{% endfor %}", "{% break %}", "{% if t %}{% continue %}{% endif %}",
    "{% for x in l %}{% set y = x %}{% endfor %}{{ y }}", "{% set y = 0 %}{% for x in l %}{% set y = y + x %}{{ y }} {% endfor %}{{ y }}", "{% for x in l %}{{ y }}{% set y = x %}{% endfor %}", "{% for x in l %}{% endfor %}{{ x }}", "{% set x = 'o' %}{% for x in l %}{% endfor %}{{ x }}",
    "{% set ns = namespace(y=0) %}{% for x in l %}{% set ns.y = ns.y + x %}{% endfor %}{{ ns.y }}", "{% for x in l %}{% if x > 1 %}{% set z = x %}{% endif %}{{ z }},{% endfor %}", "{% set z = 9 %}{% for x in l %}{% if x > 1 %}{% set z = x %}{% endif %}{{ z }},{% endfor %}{{ z }}",
    "{% for x in l %}{% set s = 'in' %}{{ s }}{% endfor %}{{ s }}", "{% for n1 in tree recursive %}{{ n1.v }}{{ loop.depth }}[{{ loop(n1.c) }}]{% endfor %}", "{% for n1 in tree recursive %}{{ n1.v }}{% if n1.c %}({{ loop(n1.c) }}){% else %}.{% endif %}{% endfor %}",
    "{% for x in l %}{{ loop(l) }}{% endfor %}", "{% for loop in l %}{{ loop }}{% endfor %}", "{% for x in l %}{% set loop = 1 %}{% endfor %}", "{% for x in l if loop.index > 1 %}{{ x }}{% endfor %}", "{% for x in l %}", "{% for x l %}{% endfor %}", "{% for in l %}{% endfor %}", "{% endfor %}",
    "{% for x.y in l %}{% endfor %}", "{% for 'a' in l %}{% endfor %}", "{% for x in l %}{% else %}{% else %}{% endfor %}", "{% for x in l recursive %}{{ x }}{% endfor %}", "{% for x in l if x recursive %}{{ x }}{% endfor %}", "{% for x in [1,2,3] if x is odd %}{{ loop.previtem }}{{ x }}{{ loop.nextitem }};{% endfor %}",
    "{% for x in l %}{% if loop.first %}F{% elif loop.last %}L{% else %}M{% endif %}{% endfor %}", "{% for i in range(3) %}{% for j in range(i) %}{{ i }}{{ j }} {% endfor %}{% endfor %}", "{% for x in d.values() %}{{ x }};{% endfor %}", "{% for x in 'ab' ~ 'c' %}{{ x }},{% endfor %}", "{% for x in l %}\n  {{ x }}\n{% endfor %}\n", "{%- for x in l -%}\n  {{ x }}\n{%- endfor -%}\n",
    "{% for x in (l if t else le) %}{{ x }}{% endfor %}", "{% for x in l if t else le %}{{ x }}{% endfor %}", "{% for u in users %}{{ u.name }}{{ ', ' if not loop.last }}{% endfor %}", "{% set it = l | map('string') %}{% for x in it %}{{ x }}{% endfor %}{% for x in it %}again{% else %}empty{% endfor %}",
    # set
    "{% set x = 1 %}{{ x }}", "{% set x, y = 1, 2 %}{{ x }}{{ y }}", "{% set x = 1, 2 %}{{ x }}", "{% set (x, y) = [1, 2] %}{{ x + y }}", "{% set x, y = 1 %}", "{% set x = [] %}{% set x = x + [1] %}{{ x }}", "{% if t %}{% set x = 1 %}{% endif %}{{ x }}", "{% if f %}{% set x = 1 %}{% endif %}{{ x is defined }}",
    "{% if f %}{% set s = 1 %}{% endif %}{{ s }}", "{{ s }}{% set s = 1 %}{{ s }}", "{% set s = s ~ '!' %}{{ s }}", "{% for i in [1] %}{{ s }}{% endfor %}{% set s = 2 %}{{ s }}", "{% if f %}{% set s = 1 %}{% else %}{{ s }}{% endif %}", "{% if f %}{% set q1 = 1 %}{% elif t %}{{ q1 is defined }}{% set q1 = 2 %}{% endif %}{{ q1 }}",
    "{% set x %}a{{ 1 }}b{% endset %}{{ x }}|{{ x | length }}", "{% set x | upper %}abc{% endset %}{{ x }}", "{% set x | replace('a', 'b') | upper %}aaa{% endset %}{{ x }}", "{% set x %}{% set y = 1 %}{{ y }}{% endset %}{{ x }}{{ y is defined }}", "{% set x %}<b>{% endset %}{{ x ~ '<' }}{{ x is escaped }}", "{% set x %}{% endset %}[{{ x }}]",
    "{% set ns = namespace(a=1, b='x') %}{% set ns.a = 5 %}{% set ns.c = ns.a %}{{ ns.a }}{{ ns.b }}{{ ns.c }}{{ ns.d is defined }}", "{% set ns = namespace() %}{% set ns.x %}blk{% endset %}{{ ns.x }}", "{% set d.x = 1 %}", "{% set undefined_name.x = 1 %}", "{% set ns = namespace(a=1) %}{% set ns.a, ns.b = 3, 4 %}{{ ns.a }}{{ ns.b }}", "{% set ns = namespace(a=1) %}{% set ns._a = 2 %}",
    "{% set ns = namespace(l=[]) %}{% for x in l %}{% set ns.l = ns.l + [x * 2] %}{% endfor %}{{ ns.l }}", "{% set ns = namespace(f=false) %}{% for x in l %}{% if x == 1 %}{% set ns.f = true %}{% endif %}{% endfor %}{{ ns.f }}", "{% set x = %}", "{% set = 1 %}", "{% set 1 = 2 %}", "{% set true = 2 %}", "{% set x.y.z = 1 %}", "{% set x[0] = 1 %}", "{% set x %}a", "{% set range = 5 %}{{ range }}", "{% set l = l[1:] %}{{ l }}",
    # macros
    "{% macro m() %}x{% endmacro %}{{ m() }}", "{% macro m(a, b=2, c='z') %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ m(1) }}|{{ m(1, 5) }}|{{ m(1, c='q') }}|{{ m(a=3) }}|{{ m() }}", "{% macro m(a) %}{{ a is defined }}{% endmacro %}{{ m() }}{{ m(none) }}", "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}", "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(b=2) }}", "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, a=2) }}",
    "{% macro m(a, b=a) %}{{ b }}{% endmacro %}{{ m(4) }}", "{% macro m(a, b=a ~ '!') %}{{ b }}{% endmacro %}{{ m(4, 5) }}{{ m(4) }}", "{% macro m() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, x=3) }}", "{% macro m(a) %}{{ a }}{{ varargs }}{% endmacro %}{{ m(1, 2, 3) }}{{ m(1) }}", "{% macro m(*a) %}{% endmacro %}", "{% macro m(a=1, b) %}{% endmacro %}", "{% macro m(a, a) %}{% endmacro %}",
    "{% macro fact(n) %}{% if n <= 1 %}1{% else %}{{ n * (fact(n - 1) | int) }}{% endif %}{% endmacro %}{{ fact(5) }}", "{% macro walk(x) %}{% if x is mapping %}{ {%- for k, v in x.items() %}{{ k }}:{{ walk(v) }},{% endfor -%} }{% elif x is sequence and x is not string %}[{% for i in x %}{{ walk(i) }},{% endfor %}]{% else %}{{ x }}{% endif %}{% endmacro %}{{ walk(d) }}",
    "{% macro m() %}{{ x }}{% endmacro %}{% set x = 1 %}{{ m() }}{% set x = 2 %}{{ m() }}", "{% macro m() %}{% set x = 5 %}{{ x }}{% endmacro %}{% set x = 1 %}{{ m() }}{{ x }}", "{% macro m() %}{{ s }}{% endmacro %}{{ m() }}", "{{ m() }}{% macro m() %}late{% endmacro %}", "{% for x in l %}{% macro m() %}{{ x }}{% endmacro %}{{ m() }}{% endfor %}{{ m is defined }}", "{% macro a() %}A{{ b() }}{% endmacro %}{% macro b() %}B{% endmacro %}{{ a() }}",
    "{% macro m() %}x{% endmacro %}{{ m() + 'y' }}{{ m() | upper }}{{ m() | length }}", "{% macro m() %} x {% endmacro %}[{{ m() | trim }}]", "{% macro m(a, b) %}{{ m.name }}{{ m.arguments }}{{ m.catch_kwargs }}{% endmacro %}{{ m() }}", "{% macro m() %}{{ kwargs.x }}{% endmacro %}{{ m(**{'x': 7}) }}{{ m(**d) }}", "{% macro m(a, b) %}{{ a }}{{ b }}{% endmacro %}{{ m(*[1, 2]) }}{{ m(*l[:2]) }}{{ m(1, *[2]) }}{{ m(1, **{'b': 3}) }}", "{% macro m(a) %}{% endmacro %}{{ m(*5) }}", "{% macro m(a) %}{% endmacro %}{{ m(**5) }}",
    "{% macro m() %}{% for x in l %}{% if x == 1 %}{% break %}{% endif %}{{ x }}{% endfor %}{% endmacro %}{{ m() }}", "{% for x in l %}{% macro m() %}{% break %}{% endmacro %}{% endfor %}", "{% macro m() %}{{ caller() }}{% endmacro %}{{ m() }}", "{% macro m() %}<{{ caller() }}>{% endmacro %}{% call m() %}body{% endcall %}", "{% macro m(x) %}<{{ caller(x, 2) }}>{% endmacro %}{% call(a, b=3) m(1) %}{{ a }}{{ b }}{% endcall %}", "{% macro m() %}x{% endmacro %}{% call m() %}body{% endcall %}",
    "{% macro m() %}{{ caller is defined }}{% endmacro %}{{ m() }}{% call m() %}{% endcall %}", "{% macro m() %}{% if caller %}{{ caller() }}{% else %}-{% endif %}{% endmacro %}{{ m() }}{% call m() %}c{% endcall %}", "{% macro m() %}{% for i in l %}{{ caller(i) }}{% endfor %}{% endmacro %}{% call(i) m() %}[{{ i }}]{% endcall %}", "{% set v = 1 %}{% macro m() %}{% set v = 2 %}{{ caller() }}{% endmacro %}{% call m() %}{{ v }}{% endcall %}", "{% macro outer() %}{% call inner() %}x{{ caller() }}{% endcall %}{% endmacro %}{% macro inner() %}({{ caller() }}){% endmacro %}{% call outer() %}y{% endcall %}", "{% call s %}x{% endcall %}", "{% call m() %}", "{% macro m() %}", "{% macro %}{% endmacro %}", "{% macro m(a b) %}{% endmacro %}", "{% macro m(caller) %}{{ caller() }}{% endmacro %}", "{% macro m(caller=none) %}{% if caller %}{{ caller() }}{% else %}n{% endif %}{% endmacro %}{{ m() }}{% call m() %}b{% endcall %}",
    "{% macro m(a) %}{{ a.x }}{% endmacro %}{{ m() }}", "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(a=undefined_name) }}|", "{% macro m(a='d') %}{{ a }}{% endmacro %}{{ m(undefined_name) }}|", "{% macro r(n) %}{% if n > 0 %}{{ n }}{{ r(n - 1) }}{% endif %}{% endmacro %}{{ r(20) }}", "{% macro a(x) %}{% macro b() %}{{ x }}{% endmacro %}{{ b() }}{% endmacro %}{{ a(3) }}{{ b is defined }}", "{% macro m(messages) %}{{ messages | length }}{% endmacro %}{{ m([1, 2]) }}", "{{ m }}{% set m = 1 %}",
    # filter blocks, with, print, generation
    "{% filter upper %}abc{{ s }}{% endfilter %}", "{% filter replace('a', 'b') | upper %}aaa{% endfilter %}", "{% filter trim %}  x  {% endfilter %}|", "{% filter indent(2, true) %}a\nb{% endfilter %}", "{% filter upper %}{% set zz = 1 %}{% endfilter %}{{ zz is defined }}", "{% filter upper %}x", "{% filter no_such_filter %}x{% endfilter %}", "{% filter length %}abc{% endfilter %}", "{% filter %}x{% endfilter %}",
    "{% with a = 1, b = 2 %}{{ a }}{{ b }}{% endwith %}{{ a is defined }}", "{% with %}{% set a = 1 %}{{ a }}{% endwith %}{{ a is defined }}", "{% set a = 1 %}{% with a = 2, b = a %}{{ a }}{{ b }}{% endwith %}{{ a }}", "{% with a, b = 1, 2 %}{% endwith %}", "{% with (a, b) = [1, 2] %}{{ a }}{{ b }}{% endwith %}", "{% print 1 %}{% print 'a', 2 %}", "{% print %}x",
    "{% generation %}abc{{ s }}{% endgeneration %}", "{% generation %}{% set a = 1 %}{{ a }}{% endgeneration %}{{ a is defined }}", "{% for m in l %}{% generation %}{{ m }}{{ loop.index }}{% endgeneration %}{% endfor %}", "a\n{% generation %}\nx\n{% endgeneration %}\nb", "{% generation %}x", "{% for m in l %}{% generation %}{% break %}{% endgeneration %}{% endfor %}",
    # errors and the rest
    "{% no_such_tag %}", "{% endset %}", "{{ x", "{% if t", "{{ }}", "{% %}", "{{ 1 }", "{{ s | no_such_filter }}", "{{ s is no_such_test }}", "{{ s | upper(1) }}", "{{ s | replace }}", "{{ s | trim(1, 2) }}", "{{ l | join(',', nope=1) }}", "{{ s.upper(1) }}", "{{ s.split(1) }}", "{{ d.get() }}", "{{ d.get([]) }}", "{{ 5() }}", "{{ s() }}", "{{ n() }}", "{{ l() }}",
    "{{ raise_exception('bad ' ~ s) }}", "{% if f %}{{ raise_exception('x') }}{% endif %}ok", "{% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.next() }}{{ c.next() }}{{ c.current }}{% set _ = c.reset() %}{{ c.current }}", "{% set j = joiner(', ') %}{% for x in l %}{{ j() }}{{ x }}{% endfor %}", "{{ cycler() }}", "{% set x = namespace %}{% set y = x(a=1) %}{{ y.a }}", "{% set f2 = s.upper %}{{ f2() }}", "{% set f2 = d.get %}{{ f2('a') }}",
    "{% for m in users %}{% if not loop.first and loop.previtem.age == m.age %}same{% else %}{{ m.age }}{% endif %} {% endfor %}", "{%- set sep = joiner(';') -%}{%- for u in users if u.age == 30 -%}{{ sep() }}{{ u.name }}{%- endfor -%}", "{% set content = '' %}{% for c in [{'type': 'text', 'text': 'a'}, {'type': 'image'}, {'type': 'text', 'text': 'b'}] %}{% if c.type == 'text' %}{% set content = content ~ c.text %}{% endif %}{% endfor %}[{{ content }}]", "{% set ns = namespace(last=-1) %}{% for u in users %}{% if u.ok %}{% set ns.last = loop.index0 %}{% endif %}{% endfor %}{{ ns.last }}",
    "{% for m in users[::-1] %}{% set index = (users | length - 1) - loop.index0 %}{{ index }}{{ m.name }} {% endfor %}", "{{ {'type': 'function', 'function': {'name': 'f', 'parameters': d}} | tojson(indent=4) }}", "{% set x = 1 %}{% if x %}{% set x = 2 %}{% if x %}{% set x = 3 %}{% endif %}{% endif %}{{ x }}", "{% for a in [1, 2] %}{% set v = a %}{% for b in [1, 2] %}{% set v = v * 10 + b %}{{ v }} {% endfor %}{{ v }};{% endfor %}", "{% set x = 5 %}{% for i in [1] %}{% if i %}{% set x = 6 %}{% endif %}{{ x }}{% endfor %}{{ x }}", "{% set v = 1 %}{% set w %}{{ v }}{% set v = 2 %}{{ v }}{% endset %}{{ w }}{{ v }}", "{% block b %}x{% endblock %}{{",
]
