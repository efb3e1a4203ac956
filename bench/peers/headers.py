"""Structs and enumerations of the library for ctypes, read from its public headers.

Nothing of a layout is written down a second time: a field that a header gains is a field here. Understood is the C that
include/s4/*.h use: enums with or without values, integer #defines, structs of scalars, enums, pointers, arrays, function
pointers and other structs of the same headers.
"""
import ctypes
import pathlib
import re

SCALARS = {
    "int": ctypes.c_int, "unsigned": ctypes.c_uint, "char": ctypes.c_char, "double": ctypes.c_double,
    "int64_t": ctypes.c_int64, "uint64_t": ctypes.c_uint64, "size_t": ctypes.c_size_t,
}
READ_IN_THIS_ORDER = ("status.h", "types.h", "context.h", "layer.h", "plan.h")


class Headers:
    """`constants`: name -> int. `structs`: name -> ctypes.Structure."""

    def __init__(self, folder):
        self.constants, self.structs, self.types = {}, {}, dict(SCALARS)
        for name in READ_IN_THIS_ORDER:
            self._read((pathlib.Path(folder) / "s4" / name).read_text())

    def make(self, name, **fields):
        """A zeroed struct with struct_size set where it has one."""
        struct = self.structs[name]()
        if hasattr(struct, "struct_size"):
            struct.struct_size = ctypes.sizeof(struct)
        for field, value in fields.items():
            if not hasattr(struct, field):
                raise AttributeError(f"{name} has no field {field}")
            setattr(struct, field, value)
        return struct

    def _read(self, text):
        text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
        text = text.replace("\\\n", " ")
        for name, value in re.findall(r"^#define\s+(S4_\w+)\s+(\d+)\s*$", text, flags=re.M):
            self.constants[name] = int(value)
        for name, value in re.findall(r"X\((S4_\w+),\s*(\d+),", text):
            self.constants[name] = int(value)
        for kind, body, name in re.findall(r"typedef\s+(enum|struct)\s+\w+\s*\{(.*?)\}\s*(\w+)\s*;", text, flags=re.S):
            if kind == "enum":
                self._enum(name, body)
            else:
                self.types[name] = self.structs[name] = self._struct(name, body)

    def _enum(self, name, body):
        value = -1
        for item in re.sub(r"^\s*#.*$|S4_\w+_LIST\(\w+\)", "", body, flags=re.M).split(","):
            if not item.strip():
                continue
            label, _, given = (part.strip() for part in item.partition("="))
            value = int(given, 0) if given else value + 1
            self.constants[label] = value
        self.types[name] = ctypes.c_int

    def _struct(self, name, body):
        fields = []
        for declaration in filter(None, (" ".join(part.split()) for part in body.split(";"))):
            function = re.match(r".*\(\*(\w+)\)\(", declaration)
            if function:
                fields.append((function.group(1), ctypes.c_void_p))
                continue
            type_name, names = re.match(r"(?:const )?(?:struct )?(\w+)\b(.*)", declaration).groups()
            fields += [self._field(type_name, declarator) for declarator in names.split(",")]
        return type(name, (ctypes.Structure,), {"_fields_": fields})

    def _field(self, type_name, declarator):
        stars, name, sizes = re.match(r"\s*((?:\*\s*)*)(\w+)((?:\[\w+\])*)", declarator).groups()
        if "*" in stars:
            kind = ctypes.c_char_p if type_name == "char" else ctypes.c_void_p
        else:
            kind = self.types[type_name]
        for size in reversed(re.findall(r"\[(\w+)\]", sizes)):
            kind = kind * (int(size) if size.isdigit() else self.constants[size])
        return name, kind
