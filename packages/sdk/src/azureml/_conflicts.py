import os
import sys

_SAID = "RUNYARD_SAID_AZUREML"


def check_conflicts():
    """Raise ImportError where azureml-core is installed too: both packages are called `azureml`.

    Inside a run ours comes first on sys.path and works, so only one line is printed.
    """
    found = installed_originals()
    if not found:
        return
    if "RUNYARD_JOURNALS" in os.environ:
        if _SAID not in os.environ:
            os.environ[_SAID] = "1"
            print("runyard: {} is installed in this environment and is not used; azureml is Runyard's here.".format(
                ", ".join(found)))
        return
    raise ImportError(
        "{} and runyard-sdk are installed in the same environment, and both provide the package 'azureml'. "
        "Keep one of them. To use Runyard: pip uninstall -y {} && pip install --force-reinstall runyard-sdk".format(
            " and ".join(found), " ".join(found)))


def installed_originals():
    """Names of installed distributions that contain their own `azureml.core`."""
    found = set()
    for folder in sys.path:
        if not folder.endswith(("site-packages", "dist-packages")):
            continue
        try:
            names = os.listdir(folder)
        except OSError:
            continue
        for name in names:
            if name.startswith("azureml_core-") and name.endswith((".dist-info", ".egg-info")):
                found.add("azureml-core")
    return sorted(found)
