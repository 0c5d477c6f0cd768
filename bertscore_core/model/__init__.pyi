from .architectures import (
    has_local_layers as has_local_layers,
    read_architecture as read_architecture,
    reads_left_to_right as reads_left_to_right,
)
from .device import (
    Begun as Begun,
    Budget as Budget,
    CudaMoment as CudaMoment,
    DeviceQueue as DeviceQueue,
    Fetched as Fetched,
    Moment as Moment,
    Result as Result,
    attempt as attempt,
    is_device_lost as is_device_lost,
    is_out_of_memory as is_out_of_memory,
    noticing_a_lost_device as noticing_a_lost_device,
)
from .encoder import (
    Encoder as Encoder,
    EncoderOptions as EncoderOptions,
    cast_weights as cast_weights,
    check_openvino as check_openvino,
    check_processor as check_processor,
    choose_backend as choose_backend,
    choose_dtype as choose_dtype,
    device_kind as device_kind,
    load_encoder as load_encoder,
    resolve_device as resolve_device,
)
from .kept_encoders import (
    CACHE_VARIABLE as CACHE_VARIABLE,
    cache_key as cache_key,
    find_encoder as find_encoder,
    new_encoder as new_encoder,
)
from .layers import (
    LastLayer as LastLayer,
    check_layer as check_layer,
    cut as cut,
    find_final_norm as find_final_norm,
)
from .openvino_runtime import (
    CompileOptions as CompileOptions,
    compile_encoder as compile_encoder,
    computes_in as computes_in,
    openvino_version as openvino_version,
)
from .packing import (
    POSITIONS as POSITIONS,
    PackedBatch as PackedBatch,
    Packing as Packing,
    can_pack as can_pack,
    packed_forward as packed_forward,
)
from .resolve import (
    ModelFiles as ModelFiles,
    read_json as read_json,
    resolve_model as resolve_model,
)
from .switches import (
    exact_products as exact_products,
    set_threads as set_threads,
    undisturbed as undisturbed,
)
