from dataclasses import dataclass, field

REFUSE, VIRTUAL_ENVIRONMENT = "refuse", "virtual-environment"
AUTO, NEVER = "auto", "never"


@dataclass(frozen=True)
class PackageSettings:
    """Where the environments of a workspace come from. Addresses may hold passwords: the whole is a secret, kept in
    the vault and asked for by nodes when they build."""

    index_url: str = ""
    """In place of the usual index; "" leaves the submitter's own choice."""
    extra_index_urls: tuple[str, ...] = ()
    find_links: tuple[str, ...] = ()
    """Folders or pages of wheels; one that holds CPU builds of torch serves use_gpu=False."""
    trusted_hosts: tuple[str, ...] = ()
    ca_bundle: str = ""
    """Certificates in PEM form that uv, pip, conda and image builds trust."""
    offline: bool = False
    """Use what is in the caches alone."""
    conda: str = AUTO
    """"auto": an installed micromamba, mamba or conda solves conda packages; "never": they are mapped to PyPI."""
    conda_channels: dict[str, str] = field(default_factory=dict)
    """The address to take for a channel's name."""
    python_downloads: str = AUTO
    """"auto": uv may download an interpreter that is not here; "never"."""
    without_engine: str = REFUSE
    """What a run in an image does where there is no container engine: "refuse", or "virtual-environment"."""
