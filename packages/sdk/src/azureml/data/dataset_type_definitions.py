from enum import Enum


class PromoteHeadersBehavior(Enum):
    NO_HEADERS = 0
    ONLY_FIRST_FILE_HAS_HEADERS = 1
    COMBINE_ALL_FILES_HEADERS = 2
    ALL_FILES_HAVE_SAME_HEADERS = 3


class SkipLinesBehavior(Enum):
    NO_ROWS = 0
    FROM_FIRST_FILE_ONLY = 1
    FROM_ALL_FILES = 2


class HistogramCompareMethod(Enum):
    WASSERSTEIN = 0
    ENERGY = 1


class FileEncoding(Enum):
    UTF8 = 0
    ISO88591 = 1
    LATIN1 = 2
    ASCII = 3
    UTF16 = 4
    UTF32 = 5
    UTF8BOM = 6
    WINDOWS1252 = 7


class FileType(Enum):
    GENERIC_CSV = "GenericCSV"
    GENERIC_CSV_NO_HEADER = "GenericCSVNoHeader"
    GENERIC_TSV = "GenericTSV"
    GENERIC_TSV_NO_HEADER = "GenericTSVNoHeader"
    ZIP = "ZIP"
    PARQUET = "Parquet"
    UNKNOWN = "Unknown"
