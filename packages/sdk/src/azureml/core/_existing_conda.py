"""A conda environment of this machine, as conda itself describes it."""
import os

from azureml._yaml import YamlError, loads

_VARIABLES = ("CONDA_EXE", "MAMBA_EXE")
_PROGRAMS = ("conda", "mamba", "micromamba")


def exported(name):
    """Its conda specification; None, with a line printed that says why, where it cannot be had."""
    import subprocess
    program = _program()
    if program is None:
        print("Could not export the conda environment %r: there is no %s on the PATH." % (name, ", ".join(_PROGRAMS)))
        return None
    done = subprocess.run([program, "env", "export", _selected(str(name))], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip() or "exit status %d" % done.returncode
        print("Could not export the conda environment %r: %s" % (name, said))
        return None
    try:
        found = loads(done.stdout.decode("utf-8"))
    except (YamlError, UnicodeDecodeError) as error:
        print("Could not export the conda environment %r: %s does not print YAML. %s" % (name, program, error))
        return None
    return _portable(found or {})


def _program():
    from shutil import which
    named = [os.environ.get(name) for name in _VARIABLES] + list(_PROGRAMS)
    return next((found for found in (which(name) for name in named if name) if found), None)


def _selected(name):
    """As one word, so that no name can be taken for an option."""
    return "--%s=%s" % ("prefix" if os.sep in name else "name", name)


def _portable(specification):
    """Without the folder it lies in and without build strings, which are of this platform alone."""
    kept = {key: value for key, value in specification.items() if key != "prefix"}
    kept["dependencies"] = [
        "=".join(package.split("=")[:2]) if isinstance(package, str) and package.count("=") == 2 and
        "==" not in package else package for package in kept.get("dependencies") or []]
    return kept
