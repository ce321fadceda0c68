// The one list of architectures. To add one: write its file of data, add it here (docs/add-an-architecture.md).
#pragma once

#include "bantam/model/archs/afmoe.hpp"
#include "bantam/model/archs/apertus.hpp"
#include "bantam/model/archs/arcee.hpp"
#include "bantam/model/archs/bailing_moe.hpp"
#include "bantam/model/archs/bailing_moe_v3.hpp"
#include "bantam/model/archs/bart.hpp"
#include "bantam/model/archs/bert.hpp"
#include "bantam/model/archs/bitnet.hpp"
#include "bantam/model/archs/bloom.hpp"
#include "bantam/model/archs/cohere.hpp"
#include "bantam/model/archs/deci.hpp"
#include "bantam/model/archs/deepseek.hpp"
#include "bantam/model/archs/deepseek_v32.hpp"
#include "bantam/model/archs/distilbert.hpp"
#include "bantam/model/archs/dots1.hpp"
#include "bantam/model/archs/ernie4_5_moe.hpp"
#include "bantam/model/archs/eurobert.hpp"
#include "bantam/model/archs/exaone.hpp"
#include "bantam/model/archs/exaone4.hpp"
#include "bantam/model/archs/falcon.hpp"
#include "bantam/model/archs/falcon_h1.hpp"
#include "bantam/model/archs/gemma.hpp"
#include "bantam/model/archs/gemma3n.hpp"
#include "bantam/model/archs/gemma4.hpp"
#include "bantam/model/archs/gemma_embedding.hpp"
#include "bantam/model/archs/glm.hpp"
#include "bantam/model/archs/glm4.hpp"
#include "bantam/model/archs/glm4_moe.hpp"
#include "bantam/model/archs/gpt2.hpp"
#include "bantam/model/archs/gpt_j.hpp"
#include "bantam/model/archs/gpt_neo.hpp"
#include "bantam/model/archs/gpt_neox.hpp"
#include "bantam/model/archs/gpt_oss.hpp"
#include "bantam/model/archs/granite.hpp"
#include "bantam/model/archs/granite_hybrid.hpp"
#include "bantam/model/archs/granite_moe.hpp"
#include "bantam/model/archs/granite_swa.hpp"
#include "bantam/model/archs/hunyuan_moe.hpp"
#include "bantam/model/archs/internlm2.hpp"
#include "bantam/model/archs/jais2.hpp"
#include "bantam/model/archs/kimi_linear.hpp"
#include "bantam/model/archs/laguna.hpp"
#include "bantam/model/archs/lfm2.hpp"
#include "bantam/model/archs/llama.hpp"
#include "bantam/model/archs/llama4.hpp"
#include "bantam/model/archs/mamba2.hpp"
#include "bantam/model/archs/mimo_v2.hpp"
#include "bantam/model/archs/minicpm.hpp"
#include "bantam/model/archs/minimax_m2.hpp"
#include "bantam/model/archs/mistral.hpp"
#include "bantam/model/archs/mistral3.hpp"
#include "bantam/model/archs/mistral4.hpp"
#include "bantam/model/archs/mixtral.hpp"
#include "bantam/model/archs/modernbert.hpp"
#include "bantam/model/archs/mpnet.hpp"
#include "bantam/model/archs/mpt.hpp"
#include "bantam/model/archs/nemotron_h.hpp"
#include "bantam/model/archs/nomic_bert.hpp"
#include "bantam/model/archs/olmo.hpp"
#include "bantam/model/archs/olmo2.hpp"
#include "bantam/model/archs/olmoe.hpp"
#include "bantam/model/archs/opt.hpp"
#include "bantam/model/archs/phi2.hpp"
#include "bantam/model/archs/phi3.hpp"
#include "bantam/model/archs/phimoe.hpp"
#include "bantam/model/archs/qwen2.hpp"
#include "bantam/model/archs/qwen3.hpp"
#include "bantam/model/archs/qwen3_5.hpp"
#include "bantam/model/archs/qwen3_next.hpp"
#include "bantam/model/archs/qwen4_exp.hpp"
#include "bantam/model/archs/qwen_moe.hpp"
#include "bantam/model/archs/seed_oss.hpp"
#include "bantam/model/archs/smallthinker.hpp"
#include "bantam/model/archs/smollm3.hpp"
#include "bantam/model/archs/stablelm.hpp"
#include "bantam/model/archs/starcoder2.hpp"
#include "bantam/model/archs/step3p5.hpp"
#include "bantam/model/archs/t5.hpp"
#include "bantam/model/archs/yi.hpp"

namespace bantam::inline v0 {

inline constexpr const ArchSpec* architectures[] = {&archs::llama, &archs::mistral, &archs::qwen2, &archs::qwen3,
                                                    &archs::mixtral, &archs::qwen2_moe, &archs::qwen3_moe, &archs::olmoe,
                                                    &archs::glm4_moe, &archs::minimax_m2, &archs::ernie4_5_moe, &archs::gpt_oss,
                                                    &archs::hunyuan_moe, &archs::deepseek_v2, &archs::deepseek_v3, &archs::glm4_moe_lite,
                                                    &archs::granite, &archs::smollm3, &archs::olmo2, &archs::starcoder2, &archs::cohere, &archs::yi,
                                                    &archs::qwen3_5, &archs::qwen3_5_moe, &archs::lfm2, &archs::lfm2_moe,
                                                    &archs::nemotron_h, &archs::nemotron_h_moe, &archs::mamba2,
                                                    &archs::gemma, &archs::gemma2, &archs::gemma3, &archs::phi3, &archs::phi2, &archs::glm4, &archs::olmo3,
                                                    &archs::ministral3, &archs::cohere2, &archs::gpt_neox, &archs::stablelm, &archs::granite_moe,
                                                    &archs::gemma4, &archs::gemma4_moe,
                                                    &archs::qwen3_next, &archs::granite_hybrid, &archs::granite_moe_hybrid,
                                                    &archs::gpt2, &archs::gpt_bigcode, &archs::falcon, &archs::falcon_40b, &archs::falcon_rw, &archs::falcon_11b, &archs::bloom, &archs::mpt,
                                                    &archs::gpt_j, &archs::opt, &archs::phimoe, &archs::llama4, &archs::smallthinker,
                                                    &archs::falcon_h1, &archs::falcon_h1_plain, &archs::kimi_linear,
                                                    &archs::ernie4_5, &archs::hunyuan_dense, &archs::seed_oss, &archs::exaone4, &archs::glm, &archs::arcee,
                                                    &archs::dots1, &archs::solar_open, &archs::exaone_moe, &archs::hy_v3,
                                                    &archs::llama_biased, &archs::helium, &archs::cwm, &archs::ministral, &archs::gpt_neox_sequential, &archs::hyperclovax, &archs::vaultgemma,
                                                    &archs::flex_olmo, &archs::mellum, &archs::youtu, &archs::jais2, &archs::nemotron,
                                                    &archs::olmo, &archs::afmoe, &archs::mistral4, &archs::deepseek_v32, &archs::glm_moe_dsa,
                                                    &archs::cohere2_moe, &archs::granite_swa, &archs::granite_moe_swa, &archs::apertus, &archs::laguna, &archs::gpt_neo, &archs::bitnet,
                                                    &archs::granite_moe_shared, &archs::gemma4_12b, &archs::bailing_moe, &archs::bailing_moe_v2, &archs::mimo_v2,
                                                    &archs::exaone, &archs::internlm2, &archs::minicpm, &archs::deepseek_moe, &archs::step3p5, &archs::bailing_moe_v3, &archs::gemma3n, &archs::deci, &archs::qwen4_exp,
                                                    &archs::bert, &archs::roberta, &archs::xlm_roberta, &archs::nomic_bert, &archs::modernbert,
                                                    &archs::t5, &archs::mt5, &archs::t5_gated, &archs::umt5,
                                                    &archs::t5_encoder, &archs::mt5_encoder, &archs::t5_gated_encoder, &archs::umt5_encoder,
                                                    &archs::bart, &archs::mbart,
                                                    &archs::distilbert, &archs::mpnet, &archs::electra, &archs::ernie, &archs::eurobert, &archs::gemma_embedding};

}  // namespace bantam::inline v0
