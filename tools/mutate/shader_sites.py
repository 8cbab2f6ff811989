"""Places of a kernel file (shaders/*.hk, *.hki) that can be mutated, found line by line. The mutated text stands there
as it is: it is chosen when the file is read (runtime.cpp)."""
import re

from cpp_sites import LOGIC, RELATIONS, SUMS, UPDATES, Site

WORDS = [("relation", RELATIONS), ("arithmetic", SUMS), ("arithmetic", UPDATES), ("logic", LOGIC)]
OPERATOR = re.compile(r"(?<= )(<=|>=|==|!=|<|>|&&|\|\||[-+*/%]=?)(?= )")
NUMBER = re.compile(r"(?<![\w.])(\d+)u?(?![\w.])")
BARRIER = re.compile(r"\s*((?:UNIT_)?BARRIER\(\);)\s*$")
STATEMENT = re.compile(r"\s*((?:V?STORE|STREAM)\(.*\);|[a-z_]\w*(?:\[[^]]*\])? [-+*]?= .*;)\s*$")


def code_lines(source):
    """(offset, line) of what is kernel text: neither header nor comment nor a condition of the preprocessor."""
    at, header = 0, False
    for line in source.split("\n"):
        header = header or line.startswith("/*")
        if not header and not re.match(r"\s*(//|#(?!define))", line):
            yield at, line.split("//")[0]
        if "*/" in line:
            header = False
        at += len(line.encode()) + 1


def condition(line):
    """(begin, end) of what stands between the parentheses of an `if`."""
    match = re.search(r"\bif \(", line)
    if not match:
        return None
    begin = end = match.end()
    depth = 1
    while end < len(line):
        depth += {"(": 1, ")": -1}.get(line[end], 0)
        if depth == 0:
            return begin, end
        end += 1
    return None


def sites_of(root, path):
    source = open(f"{root}/{path}").read()
    sites = []

    def add(at, length, operator, mutated):
        sites.append(Site(path, at, at + length, source[:at].count("\n") + 1, operator, mutated, mutated))

    for at, line in code_lines(source):
        body = re.match(r"\s*#define \w+(\([^)]*\))?", line)
        first = body.end() if body else 0
        for match in OPERATOR.finditer(line, first):
            for operator, words in WORDS:
                if match.group() in words:
                    add(at + match.start(), len(match.group()), operator, words[match.group()])
        for match in NUMBER.finditer(line, first):
            changed = match.group().replace(match.group(1), str(int(match.group(1)) + 1))
            add(at + match.start(), len(match.group()), "constant", changed)
        if place := condition(line):
            begin, end = place
            add(at + begin, end - begin, "condition", f"!({line[begin:end]})")
        for operator, pattern in (("barrier", BARRIER), ("statement", STATEMENT)):
            if match := pattern.match(line):
                add(at + match.start(1), len(match.group(1)), operator, ";")
    return sites
