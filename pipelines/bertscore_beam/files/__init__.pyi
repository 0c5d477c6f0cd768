from .buckets import Buckets as Buckets, bucket_of as bucket_of, split_by_bucket as split_by_bucket
from .checked import (
    digest_of as digest_of,
    from_json as from_json,
    to_json as to_json,
    typed as typed,
    with_digest as with_digest,
    without_digest as without_digest,
)
from .find import (
    FoundFile as FoundFile,
    Trouble as Trouble,
    file_version as file_version,
    search as search,
)
from .listing import (
    GCSFS_STOPS_AT as GCSFS_STOPS_AT,
    HIDDEN_PREFIXES as HIDDEN_PREFIXES,
    CutOffError as CutOffError,
    each_file as each_file,
    is_web as is_web,
    list_files as list_files,
    real_path as real_path,
)
from .paths import (
    FILES_IN_FLIGHT as FILES_IN_FLIGHT,
    IO_THREADS as IO_THREADS,
    MOST_IN_FLIGHT as MOST_IN_FLIGHT,
    TEMPORARY_PREFIX as TEMPORARY_PREFIX,
    absolute as absolute,
    is_missing as is_missing,
    is_remote as is_remote,
    is_utf8 as is_utf8,
    join as join,
    mask_credentials as mask_credentials,
    resolve as resolve,
    too_long_to_read as too_long_to_read,
    too_long_to_write as too_long_to_write,
    with_scheme as with_scheme,
)
from .reach import (
    NotBegunError as NotBegunError,
    before_work as before_work,
    is_of_client as is_of_client,
    is_refused as is_refused,
    reaching as reaching,
    silenced as silenced,
)
from .read import (
    NoFileError as NoFileError,
    RemoteFile as RemoteFile,
    check_is_regular as check_is_regular,
    exists as exists,
    fetch as fetch,
    in_parallel as in_parallel,
    is_file as is_file,
    is_other_version as is_other_version,
    open_source as open_source,
    read_bytes as read_bytes,
    read_each as read_each,
    read_many as read_many,
    reads_one_version as reads_one_version,
    source_size as source_size,
)
from .write import (
    can_write_below as can_write_below,
    copy_atomically as copy_atomically,
    create_exclusively as create_exclusively,
    delete as delete,
    delete_empty_folders as delete_empty_folders,
    delete_if_empty as delete_if_empty,
    delete_many as delete_many,
    delete_temporary as delete_temporary,
    is_empty_folder as is_empty_folder,
    write_atomically as write_atomically,
)
