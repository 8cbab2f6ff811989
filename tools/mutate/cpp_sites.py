"""Places of a C++ file that can be mutated, found in clang's syntax tree.

Left out: what is computed while compiling (constexpr, static_assert, template arguments, cases), macros, and the texts
of errors."""
import json
import shlex
from collections import namedtuple

import clang.cindex as ci
from clang.cindex import CursorKind as K
from clang.cindex import TypeKind as T

# `begin`, `end`: bytes of the file; `text`: what stands there instead, with {n} for the number of the mutant;
# `mutated`: the same for people.
Site = namedtuple("Site", "path begin end line operator text mutated")

ARITHMETIC = set(range(T.BOOL.value, T.LONGDOUBLE.value + 1))
RELATIONS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="}
SUMS = {"+": "-", "-": "+", "*": "+", "/": "*", "%": "*"}
UPDATES = {"+=": "-=", "-=": "+=", "*=": "+=", "/=": "*="}
LOGIC = {"&&": "||", "||": "&&"}
CLOSED = {K.STATIC_ASSERT, K.CASE_STMT, K.ENUM_CONSTANT_DECL, K.ENUM_DECL, K.TYPE_ALIAS_DECL, K.TYPEDEF_DECL,
          K.TYPE_REF, K.TEMPLATE_REF, K.ALIGNED_ATTR, K.TEMPLATE_TYPE_PARAMETER, K.TEMPLATE_NON_TYPE_PARAMETER,
          K.TEMPLATE_TEMPLATE_PARAMETER, K.CXX_UNARY_EXPR}
FUNCTIONS = {K.FUNCTION_DECL, K.CXX_METHOD, K.CONSTRUCTOR, K.DESTRUCTOR, K.CONVERSION_FUNCTION, K.FUNCTION_TEMPLATE,
             K.LAMBDA_EXPR}
BLOCKS = {K.COMPOUND_STMT, K.IF_STMT, K.FOR_STMT, K.CXX_FOR_RANGE_STMT}
CHOICE = "(hk_mutant({n}) ? ({mutated}) : ({original}))"
NEGATION = "(hk_mutant({n}) != static_cast<bool>({original}))"
OMISSION = "if (hk_mutant({n})) {} else {original}"  # takes the semicolon that follows


def arguments_of(build):
    """{file: arguments of its compilation} from compile_commands.json."""
    result = {}
    for entry in json.load(open(f"{build}/compile_commands.json")):
        keep, take = [], False
        for word in shlex.split(entry["command"]):
            if take or word.startswith(("-I", "-D", "-std", "-isystem")):
                keep.append(word)
                take = word in ("-I", "-isystem")
        result[entry["file"]] = keep
    return result


def is_arithmetic(cursor):
    return cursor.type.get_canonical().kind.value in ARITHMETIC


class Finder:
    def __init__(self, root, path, arguments):
        self.path, self.file = path, f"{root}/{path}"
        self.source = open(self.file, "rb").read()
        self.sites = []
        unit = ci.Index.create().parse(self.file, args=arguments)
        for child in unit.cursor.get_children():
            if child.location.file and child.location.file.name == self.file:
                self.walk(child, None, False)

    # ---- text

    def text(self, begin, end):
        return self.source[begin:end].decode()

    def span(self, cursor):
        return cursor.extent.start.offset, cursor.extent.end.offset

    def of(self, cursor):
        return self.text(*self.span(cursor))

    def add(self, cursor, operator, mutated, form=CHOICE):
        begin, end = self.span(cursor)
        original = self.text(begin, end)
        if begin >= end or "//" in original or "#" in original:
            return
        mutated = " ".join(mutated.split())
        text = form.replace("{mutated}", mutated).replace("{original}", original)
        self.sites.append(Site(self.path, begin, end, cursor.extent.start.line, operator, text, mutated))

    def negated(self, cursor, operator):
        self.add(cursor, operator, f"!({self.of(cursor)})", NEGATION)

    def between(self, left, right):
        """The operator between two operands; empty where a macro hides it."""
        begin, end = self.span(left)[1], self.span(right)[0]
        words = self.text(begin, end).split() if begin < end else []
        return words[0] if len(words) == 1 else ""

    # ---- the tree

    def closed(self, cursor):
        if cursor.kind in CLOSED:
            return True
        if cursor.kind not in FUNCTIONS and cursor.kind != K.VAR_DECL:
            return False
        for token in cursor.get_tokens():
            if token.spelling in ("constexpr", "consteval"):
                return True
            if token.spelling == "{" or (token.spelling == "=" and cursor.kind != K.LAMBDA_EXPR):
                return False
        return False

    def walk(self, cursor, parent, inside):
        """`inside`: within the body of a function."""
        if self.closed(cursor):
            return
        children = list(cursor.get_children())
        if cursor.kind == K.IF_STMT and self.of(cursor)[2:].lstrip().startswith("constexpr"):
            children = children[1:]
        if inside:
            self.visit(cursor, parent, children)
        says = cursor.kind == K.CALL_EXPR and cursor.spelling in ("format", "join", "print")
        if says or cursor.kind == K.CXX_THROW_EXPR:
            return
        for child in children:
            self.walk(child, cursor, inside or cursor.kind in FUNCTIONS)

    def visit(self, cursor, parent, children):
        kind = cursor.kind
        if kind in (K.BINARY_OPERATOR, K.COMPOUND_ASSIGNMENT_OPERATOR) and len(children) == 2:
            self.binary(cursor, *children)
        elif kind == K.CALL_EXPR:
            self.call(cursor)
        elif kind == K.INTEGER_LITERAL:
            self.constant(cursor)
        elif kind in (K.IF_STMT, K.CONDITIONAL_OPERATOR) and children and children[0].kind.is_expression():
            if ";" not in self.text(cursor.extent.start.offset, self.span(children[0])[1]):
                self.negated(children[0], "condition")
        elif kind == K.RETURN_STMT and children:
            self.returned(children[0])
        self.statement(cursor, parent)

    def binary(self, cursor, left, right):
        operator = self.between(left, right)
        numbers = is_arithmetic(left) and is_arithmetic(right)
        for name, words in (("relation", RELATIONS), ("logic", LOGIC), ("arithmetic", SUMS), ("arithmetic", UPDATES)):
            if operator in words and (name != "arithmetic" or numbers):
                self.add(cursor, name, f"{self.of(left)} {words[operator]} {self.of(right)}")

    def call(self, cursor):
        if cursor.spelling in ("operator==", "operator!="):
            self.negated(cursor, "relation")
        given = list(cursor.get_arguments())
        if cursor.spelling.startswith("operator"):
            return
        for a, b in zip(given, given[1:]):
            (a0, a1), (b0, b1) = self.span(a), self.span(b)
            same = a.type.get_canonical().spelling == b.type.get_canonical().spelling
            apart = a0 < a1 <= b0 < b1 and self.text(a1, b0).strip() == ","
            if same and apart and self.of(a) != self.of(b):
                begin, end = self.span(cursor)
                turned = f"{self.of(b)}, {self.of(a)}"
                self.add(cursor, "swap", self.text(begin, a0) + turned + self.text(b1, end))
                return

    def constant(self, cursor):
        text = self.of(cursor)
        digits = text.rstrip("uUlL")
        if digits.isdigit():
            self.add(cursor, "constant", str(int(digits) + 1) + text[len(digits):])

    def returned(self, value):
        if value.type.get_canonical().kind == T.BOOL:
            self.negated(value, "return")
        elif is_arithmetic(value):
            self.add(value, "return", f"({self.of(value)}) + 1")

    def statement(self, cursor, parent):
        if parent is None or parent.kind not in BLOCKS:
            return
        if parent.kind != K.COMPOUND_STMT and list(parent.get_children())[0] == cursor:
            return
        end = self.span(cursor)[1]
        if not self.text(end, end + 40).lstrip().startswith(";"):
            return
        kind = cursor.kind
        call = kind == K.CALL_EXPR and cursor.type.kind == T.VOID
        assignment = kind in (K.BINARY_OPERATOR, K.COMPOUND_ASSIGNMENT_OPERATOR) or cursor.spelling == "operator="
        if kind == K.CXX_THROW_EXPR or call or (assignment and parent.kind == K.COMPOUND_STMT):
            self.add(cursor, "statement", "left out: " + self.of(cursor), OMISSION)


def sites_of(root, path, arguments):
    return Finder(root, path, arguments).sites
