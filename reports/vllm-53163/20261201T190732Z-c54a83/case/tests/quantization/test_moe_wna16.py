"""WNA16 mixture of experts with channel-wise weights, whose group size is unset.

compressed-tensors leaves ``QuantizationArgs.group_size`` at ``None`` when one scale covers
a whole output channel: there is no group to give a size to. vLLM writes that as ``-1``, and
its Marlin checks compare the value with integers. Written for
https://github.com/vllm-project/vllm/pull/53163 (issue 52713).
"""

import pytest
import torch
from compressed_tensors.quantization import QuantizationArgs

from vllm.model_executor.layers.fused_moe.activation import MoEActivation
from vllm.model_executor.layers.fused_moe.config import (
    FusedMoEConfig,
    FusedMoEParallelConfig,
    RoutingMethodType,
)
from vllm.model_executor.layers.fused_moe.oracle.int_wna16 import (
    WNA16MoEBackend,
    _backend_incompatibility_reason,
)
from vllm.model_executor.layers.quantization.compressed_tensors.compressed_tensors_moe.compressed_tensors_moe_wna16 import (  # noqa: E501
    CompressedTensorsWNA16MoEMethod,
)
from vllm.platforms import current_platform

# The smallest sizes that fit Marlin's thread tiles without padding, so that no shape below
# depends on how padding is done.
NUM_EXPERTS = 2
HIDDEN = 256
INTERMEDIATE = 512

# Marlin keeps int4 weights as tiles of 16 rows along K, in int32 words of 8 values: for each
# row of tiles there are 16 * N / 8 = 2 * N words.
TILE = 16
WORDS_PER_COLUMN = 2


def channelwise_int4() -> QuantizationArgs:
    args = QuantizationArgs(
        num_bits=4, type="int", strategy="channel", symmetric=True, dynamic=False
    )
    # The premise of the whole file: were this ever given a default, every test below would
    # pass without testing anything.
    assert args.group_size is None
    return args


def moe_config() -> FusedMoEConfig:
    return FusedMoEConfig(
        num_experts=NUM_EXPERTS,
        experts_per_token=1,
        hidden_dim=HIDDEN,
        intermediate_size=INTERMEDIATE,
        num_local_experts=NUM_EXPERTS,
        num_logical_experts=NUM_EXPERTS,
        moe_parallel_config=FusedMoEParallelConfig.make_no_parallel(),
        activation=MoEActivation.SILU,
        in_dtype=torch.bfloat16,
        device=current_platform.device_type,
        routing_method=RoutingMethodType.TopK,
        max_num_tokens=16,
    )


@pytest.mark.skipif(
    current_platform.is_rocm(),
    reason="Marlin is refused on ROCm before the group size is read",
)
@pytest.mark.parametrize(
    "backend",
    [
        WNA16MoEBackend.MARLIN,
        # Never reads the group size: it shows that the configuration itself is acceptable.
        WNA16MoEBackend.TRITON,
    ],
    ids=lambda backend: backend.value,
)
def test_wna16_oracle_accepts_unset_group_size(backend: WNA16MoEBackend) -> None:
    reason = _backend_incompatibility_reason(
        backend=backend,
        moe_config=moe_config(),
        quant_config=channelwise_int4(),
        may_have_zp=False,
        may_have_bias=False,
        allow_tile_padding=True,
    )

    assert reason is None


@pytest.mark.skipif(
    not current_platform.is_cuda(),
    reason="Marlin is a candidate on CUDA only",
)
def test_compressed_tensors_wna16_moe_marlin_prep_with_unset_group_size() -> None:
    config = moe_config()
    # Asked for by name, so that no backend with a higher priority on this device hides it.
    config.moe_backend = "marlin"
    method = CompressedTensorsWNA16MoEMethod(channelwise_int4(), None, config)

    # Stands in for RoutedExperts, of which the weight preparation reads only these two.
    layer = torch.nn.Module()
    layer.intermediate_size_per_partition = INTERMEDIATE
    layer._expert_routing_tables = lambda: (None, None, None)
    method.create_weights(
        layer,
        num_experts=NUM_EXPERTS,
        hidden_size=HIDDEN,
        intermediate_size_per_partition=INTERMEDIATE,
        params_dtype=torch.bfloat16,
        intermediate_size_full=INTERMEDIATE,
    )
    layer.cuda()
    method.process_weights_after_loading(layer)

    # w13 holds the gate and up projections side by side, hence twice the intermediate size.
    assert layer.w13_weight_packed.shape == (
        NUM_EXPERTS,
        HIDDEN // TILE,
        WORDS_PER_COLUMN * 2 * INTERMEDIATE,
    )
    assert layer.w2_weight_packed.shape == (
        NUM_EXPERTS,
        INTERMEDIATE // TILE,
        WORDS_PER_COLUMN * HIDDEN,
    )
    # A single row of scales: the weights were still understood as channel-wise.
    assert layer.w13_weight_scale.shape == (NUM_EXPERTS, 1, 2 * INTERMEDIATE)
    assert layer.w2_weight_scale.shape == (NUM_EXPERTS, 1, HIDDEN)
