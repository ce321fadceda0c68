#!/usr/bin/python3
"""Trains models/stories-moe: a small mixture of experts with Qwen3-MoE's layers, whose routers have learned something.

usage: scripts/train_routed.py BANTAM TOKENIZER_FOLDER TEXT OUTPUT_FOLDER [MINUTES]
Needs python3-torch. The text is read as tokens of the folder's tokenizer, which is copied to the output.
"""
import json
import math
import pathlib
import shutil
import subprocess
import sys
import time

import numpy
import torch
import torch.nn.functional as F

DIM, LAYERS, HEADS, KV_HEADS, HEAD, FFN, EXPERTS, USED, CONTEXT, THETA = 64, 4, 4, 2, 16, 32, 16, 4, 256, 10000.0
BALANCE = 0.01  # of the loss that keeps experts in use (Switch Transformer, arXiv:2101.03961, eq. 4)


def parameters(vocab):
    shapes = {"model.embed_tokens.weight": (vocab, DIM), "model.norm.weight": (DIM,)}
    for i in range(LAYERS):
        layer = f"model.layers.{i}."
        shapes |= {layer + "input_layernorm.weight": (DIM,), layer + "post_attention_layernorm.weight": (DIM,),
                   layer + "self_attn.q_proj.weight": (HEADS * HEAD, DIM), layer + "self_attn.k_proj.weight": (KV_HEADS * HEAD, DIM),
                   layer + "self_attn.v_proj.weight": (KV_HEADS * HEAD, DIM), layer + "self_attn.o_proj.weight": (DIM, HEADS * HEAD),
                   layer + "self_attn.q_norm.weight": (HEAD,), layer + "self_attn.k_norm.weight": (HEAD,), layer + "mlp.gate.weight": (EXPERTS, DIM)}
        shapes |= {f"{layer}mlp.{part}": shape for part, shape in
                   (("gates", (EXPERTS, FFN, DIM)), ("ups", (EXPERTS, FFN, DIM)), ("downs", (EXPERTS, DIM, FFN)))}
    made = {}
    for name, shape in shapes.items():
        value = torch.ones(shape) if "norm" in name else torch.randn(shape) * (0.1 if "embed" in name else 1 / math.sqrt(shape[-1]))
        made[name] = value.requires_grad_()
    return made


def rms(x, gains):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * gains


def rotate(x, cos, sin):
    a, b = x.chunk(2, -1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


def forward(p, ids):
    batch, length = ids.shape
    x = p["model.embed_tokens.weight"][ids]
    angles = torch.arange(length)[:, None] * THETA ** (-torch.arange(HEAD // 2) / (HEAD / 2))
    cos, sin = angles.cos(), angles.sin()
    mask = torch.full((length, length), -math.inf).triu(1)
    uneven = 0
    for i in range(LAYERS):
        w = {name.split(".", 3)[3]: value for name, value in p.items() if name.startswith(f"model.layers.{i}.")}
        h = rms(x, w["input_layernorm.weight"])
        q, k, v = (F.linear(h, w[f"self_attn.{n}_proj.weight"]).view(batch, length, -1, HEAD).transpose(1, 2) for n in "qkv")
        q, k = rotate(rms(q, w["self_attn.q_norm.weight"]), cos, sin), rotate(rms(k, w["self_attn.k_norm.weight"]), cos, sin)
        k, v = (t.repeat_interleave(HEADS // KV_HEADS, 1) for t in (k, v))
        attended = torch.softmax(q @ k.transpose(2, 3) / math.sqrt(HEAD) + mask, -1) @ v
        x = x + F.linear(attended.transpose(1, 2).reshape(batch, length, -1), w["self_attn.o_proj.weight"])
        h = rms(x, w["post_attention_layernorm.weight"]).reshape(-1, DIM)
        scores = torch.softmax(F.linear(h, w["mlp.gate.weight"]), -1)
        best, chosen = scores.topk(USED, -1)
        weights = torch.zeros_like(scores).scatter(1, chosen, best / best.sum(-1, keepdim=True))
        # Each expert reads the tokens that chose it.
        y = torch.zeros_like(h)
        for e in range(EXPERTS):
            rows = (weights[:, e] > 0).nonzero()[:, 0]
            part = h[rows]
            out = F.linear(F.silu(F.linear(part, w["mlp.gates"][e])) * F.linear(part, w["mlp.ups"][e]), w["mlp.downs"][e])
            y = y.index_add(0, rows, out * weights[rows, e, None])
        x = x + y.view(batch, length, DIM)
        uneven = uneven + EXPERTS * ((weights > 0).float().mean(0) / USED * scores.mean(0)).sum()
    return F.linear(rms(x, p["model.norm.weight"]), p["model.embed_tokens.weight"]), uneven / LAYERS


def save(p, vocab, folder):
    tensors = {}
    for name, value in p.items():
        value = value.detach().numpy().astype("<f2")
        part = name.rsplit(".", 1)[1]
        if part in ("gates", "ups", "downs"):
            for e in range(EXPERTS):
                tensors[f"{name.rsplit('.', 1)[0]}.experts.{e}.{part[:-1]}_proj.weight"] = value[e]
        else:
            tensors[name] = value
    header, at = {}, 0
    for name, value in sorted(tensors.items()):
        header[name] = {"dtype": "F16", "shape": list(value.shape), "data_offsets": [at, at + value.nbytes]}
        at += value.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(folder / "model.safetensors", "wb") as out:
        out.write(len(text).to_bytes(8, "little") + text)
        for name in sorted(tensors):
            out.write(tensors[name].tobytes())
    config = {"architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "vocab_size": vocab, "hidden_size": DIM, "num_hidden_layers": LAYERS,
              "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS, "head_dim": HEAD, "intermediate_size": 4 * FFN, "moe_intermediate_size": FFN,
              "num_experts": EXPERTS, "num_experts_per_tok": USED, "norm_topk_prob": True, "decoder_sparse_step": 1, "mlp_only_layers": [], "hidden_act": "silu",
              "max_position_embeddings": CONTEXT, "rope_theta": THETA, "rms_norm_eps": 1e-6, "tie_word_embeddings": True, "attention_bias": False,
              "bos_token_id": 1, "eos_token_id": 2, "torch_dtype": "float16"}
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")


def main():
    bantam, tokenizer, text, output = sys.argv[1], *map(pathlib.Path, sys.argv[2:5])
    minutes = float(sys.argv[5]) if len(sys.argv) > 5 else 15
    torch.manual_seed(1)
    torch.set_num_threads(1)
    ids = torch.tensor(json.loads(subprocess.run([bantam, "tokenize", tokenizer, "-f", text, "--no-special"], capture_output=True, check=True).stdout))
    vocab = json.loads((tokenizer / "config.json").read_text())["vocab_size"]
    p = parameters(vocab)
    held = ids[-20 * CONTEXT:].view(20, CONTEXT)
    ids = ids[:-20 * CONTEXT]
    optimizer = torch.optim.AdamW(p.values(), lr=1, betas=(0.9, 0.95), weight_decay=0)
    begun, step = time.time(), 0
    while (share := (time.time() - begun) / (60 * minutes)) < 1:
        for group in optimizer.param_groups:
            group["lr"] = 3e-3 * min(1, (step + 1) / 100) * (0.5 + 0.5 * math.cos(math.pi * share))
        batch = torch.stack([ids[at:at + CONTEXT] for at in torch.randint(len(ids) - CONTEXT, (4,))])
        batch[:, 0] = 1  # texts begin with BOS
        logits, uneven = forward(p, batch)
        loss = F.cross_entropy(logits[:, :-1].reshape(-1, vocab), batch[:, 1:].reshape(-1))
        optimizer.zero_grad()
        (loss + BALANCE * uneven).backward()
        torch.nn.utils.clip_grad_norm_(p.values(), 1.0)
        optimizer.step()
        if step % 50 == 0:
            print(f"{time.time() - begun:6.0f} s, step {step}: loss {loss.item():.3f}, experts {uneven.item():.3f} (1: even)", flush=True)
        step += 1
    with torch.no_grad():
        held[:, 0] = 1
        loss = F.cross_entropy(forward(p, held)[0][:, :-1].reshape(-1, vocab), held[:, 1:].reshape(-1))
    print(f"{step} steps, held out: perplexity {loss.exp().item():.1f}")
    output.mkdir(parents=True, exist_ok=True)
    save(p, vocab, output)
    for name in ("tokenizer.json", "tokenizer_config.json", "generation_config.json"):
        shutil.copy(tokenizer / name, output / name)


if __name__ == "__main__":
    main()
