"""Prints the lines of a requirements file that this environment does not meet: `requirements.py FILE [NAME]`."""
import importlib.metadata
import re
import sys


def release(version):
    return tuple(int(part) for part in re.findall(r"\d+", version.split("+")[0])[:3])


def met(name, least):
    try:
        return release(importlib.metadata.version(name)) >= release(least)
    except importlib.metadata.PackageNotFoundError:
        return False


def main(path, only=None):
    with open(path) as file:
        for line in filter(None, map(str.strip, file)):
            name, least = line.split(">=")
            if only in (None, name) and not met(name, least):
                print(line)


main(*sys.argv[1:])
