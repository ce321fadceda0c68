"""The names of the package llama_cpp that programs import: `from bantam.llama_cpp import Llama, LogitsProcessorList`."""

from ._llama import Llama
from ._llama_parts import (BaseLlamaCache, BaseLlamaTokenizer, LlamaCache, LlamaDiskCache, LlamaDraftModel, LlamaGrammar,
                           LlamaPromptLookupDecoding, LlamaRAMCache, LlamaState, LlamaTokenizer, LogitsProcessorList,
                           MinTokensLogitsProcessor, StoppingCriteriaList)

# What programs pass to Llama(), by llama.cpp's numbers.
LLAMA_DEFAULT_SEED = 0xFFFFFFFF
LLAMA_SPLIT_MODE_NONE, LLAMA_SPLIT_MODE_LAYER, LLAMA_SPLIT_MODE_ROW = range(3)
LLAMA_POOLING_TYPE_UNSPECIFIED, LLAMA_POOLING_TYPE_NONE, LLAMA_POOLING_TYPE_MEAN, LLAMA_POOLING_TYPE_CLS, LLAMA_POOLING_TYPE_LAST = range(-1, 4)
LLAMA_ROPE_SCALING_TYPE_UNSPECIFIED = -1
GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_Q4_0, GGML_TYPE_Q8_0 = 0, 1, 2, 8

__all__ = [
    "BaseLlamaCache", "BaseLlamaTokenizer", "Llama", "LlamaCache", "LlamaDiskCache", "LlamaDraftModel", "LlamaGrammar", "LlamaPromptLookupDecoding",
    "LlamaRAMCache", "LlamaState", "LlamaTokenizer", "LogitsProcessorList", "MinTokensLogitsProcessor", "StoppingCriteriaList",
]
