from dataclasses import dataclass, field

REFUSE, VIRTUAL_ENVIRONMENT = "refuse", "virtual-environment"
AUTO, NEVER = "auto", "never"


@dataclass(frozen=True)
class PackageSettings:
    """Package sources of a workspace's environments.

    Addresses may hold passwords, so the record is a secret: it is kept in the vault, and nodes ask for it to build.
    """

    index_url: str = ""
    """Replaces the default index; "" keeps the submitter's own setting."""
    extra_index_urls: tuple[str, ...] = ()
    find_links: tuple[str, ...] = ()
    """Folders or pages of wheels, for example CPU builds of torch for use_gpu=False."""
    trusted_hosts: tuple[str, ...] = ()
    ca_bundle: str = ""
    """Certificates in PEM form that uv, pip, conda and image builds trust."""
    offline: bool = False
    """Use only what is in the caches."""
    conda: str = AUTO
    """"auto": an installed micromamba, mamba or conda solves conda packages; "never": they are mapped to PyPI."""
    conda_channels: dict[str, str] = field(default_factory=dict)
    """Address for each channel name."""
    python_downloads: str = AUTO
    """"auto": uv may download an interpreter that is not here; "never"."""
    without_engine: str = REFUSE
    """How a run in an image is handled without a container engine: "refuse" or "virtual-environment"."""
