import os

from runyard_sdk.blobs import hashed
from runyard_sdk.errors import BlobDamaged, NotFound


def download_verified(client, sha256, target, named):
    """Write a blob to `target` and compare what arrived with its hash. Raises BlobDamaged, and leaves no file then."""
    try:
        client.download("/blobs/" + sha256, target)
    except (BlobDamaged, NotFound) as error:
        raise BlobDamaged("The file {} is missing or damaged on the service's disk.".format(named), hint=error.hint)
    if hashed(target)[0] != sha256:
        os.unlink(target)
        raise BlobDamaged("The file {} did not arrive as it was registered.".format(named), hint="Download it again.")


def raise_damaged(client, damaged, count):
    """Raise the errors of files that could not be had, if any, once the others have been written."""
    if damaged:
        problem = "{} of {} files could not be had; the others were written. {}".format(
            len(damaged), count, " ".join(error.problem for error in damaged[:5]))
        raise client.transport.translate(BlobDamaged(problem, hint=damaged[0].hint))
