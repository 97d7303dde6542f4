"""Attention scores with terms, from the libraries that have them, in float64, and from 60 digits of mpmath.

    pip install -r ../requirements.txt; pip install --no-deps x-transformers==2.11.24 einops==0.8.2 einx==0.4.3 loguru==0.7.3 frozendict==2.5.1
    python make.py > scores.txt

One case is some lines "key values", the first `case NAME`. Numbers of tensors and weights are whole, to be divided by 32.
q is [batch, queries, heads, dim], k likewise; `positions` of queries and keys where they are not the usual ones. `expect` is [batch, heads, queries, keys]; "-" is an entry that the library
fills with numbers that a mask must hide.
"""

import math

import mpmath
import numpy as np
import torch
from transformers import DebertaV2Config, Wav2Vec2ConformerConfig, XLNetConfig
from transformers import FastSpeech2ConformerConfig, FunnelConfig, Gemma3nAudioConfig, Gemma4AudioConfig, NemotronAsrStreamingEncoderConfig
from transformers.models.deberta_v2 import modeling_deberta_v2 as deberta
from transformers.models.fastspeech2_conformer import modeling_fastspeech2_conformer as fastspeech2
from transformers.models.funnel import modeling_funnel as funnel
from transformers.models.gemma3n import modeling_gemma3n as gemma3n
from transformers.models.gemma4 import modeling_gemma4 as gemma4
from transformers.models.inkling import modeling_inkling as inkling
from transformers.models.inkling2 import modeling_inkling2 as inkling2
from transformers.models.nemotron_asr_streaming import modeling_nemotron_asr_streaming as nemotron
from transformers.models.sam.modeling_sam import SamVisionSdpaAttention
from transformers.models.wav2vec2_conformer import modeling_wav2vec2_conformer as conformer
from transformers.models.speecht5 import modeling_speecht5 as speecht5
from transformers.models.xlnet import modeling_xlnet as xlnet
from x_transformers.x_transformers import CoPE

mpmath.mp.dps = 60
RANDOM = np.random.default_rng(20261129)


def whole(*shape, low=-40, high=41):
    return RANDOM.integers(low, high, shape)


def real(whole_numbers):
    return torch.from_numpy(np.asarray(whole_numbers, dtype=np.float64) / 32)


class Case:
    def __init__(self, name, term, batch, heads, key_heads, queries, keys, dim, **options):
        print("case", name)
        print("term", term)
        print("dims", batch, heads, key_heads, queries, keys, dim)
        self.shape = (batch, heads, queries, keys)
        for key, value in options.items():
            print("option", key, value)
        self.q_whole = whole(batch, queries, heads, dim)
        self.k_whole = whole(batch, keys, key_heads, dim)
        self.q, self.k = real(self.q_whole), real(self.k_whole)
        print("q", *self.q_whole.ravel())
        print("k", *self.k_whole.ravel())

    def positions(self, queries, keys):
        print("positions", "query", *queries)
        print("positions", "key", *keys)

    def weight(self, name, *shape, values=None, **limits):
        numbers = whole(*shape, **limits) if values is None else np.asarray(values)
        assert numbers.shape == shape
        print("weight", name, len(shape), *shape, *numbers.ravel())
        return real(numbers)

    def expect(self, scores, source, tolerance, hidden=None):
        scores = np.asarray(scores, dtype=np.float64)
        assert scores.shape == self.shape, (scores.shape, self.shape)
        text = [f"{v:.17g}" for v in scores.ravel()]
        if hidden is not None:
            hide = np.broadcast_to(hidden, self.shape).ravel()
            text = ["-" if h else t for h, t in zip(hide, text)]
        print("source", source)
        print("tolerance", tolerance)
        print("expect", *text)


def after(queries, keys):
    return np.arange(keys)[None, :] > np.arange(queries)[:, None] + keys - queries


# ---- Transformer-XL. The library dropped the model after 4.35; RelPartialLearnableMultiHeadAttn's formulas, in float64:
# pos_seq = klen − 1 … 0 (clamped), r = r_net(cat(sin, cos)), AC = (q + r_w_bias)·k, BD = (q + r_r_bias)·r, _rel_shift(BD).


def rel_shift(x):
    zero_pad = torch.zeros((x.size(0), 1, *x.size()[2:]), dtype=x.dtype)
    padded = torch.cat([zero_pad, x], dim=1).view(x.size(1) + 1, x.size(0), *x.size()[2:])
    return padded[1:].view_as(x)


def transformer_xl(name, queries, keys, clamp, **options):
    heads, d, dim = 2, 4, 6
    if clamp:
        options["clamp_length"] = clamp
    c = Case(name, "transformer_xl", 2, heads, heads, queries, keys, d, **options)
    w_r = c.weight("w_r", heads * d, dim)
    u, v = c.weight("u", heads, d), c.weight("v", heads, d)
    pos_seq = torch.arange(keys - 1, -1, -1.0, dtype=torch.float64)
    if clamp:
        pos_seq.clamp_(max=clamp)
    inv_freq = 1 / 10000 ** (torch.arange(0.0, dim, 2.0, dtype=torch.float64) / dim)
    angles = torch.outer(pos_seq, inv_freq)
    r = (torch.cat([angles.sin(), angles.cos()], dim=-1) @ w_r.T).view(keys, heads, d)
    ac = torch.einsum("bind,bjnd->ijbn", c.q + u, c.k)
    bd = rel_shift(torch.einsum("bind,jnd->ijbn", c.q + v, r))
    scores = (ac + bd) / math.sqrt(d)
    c.expect(scores.permute(2, 3, 0, 1), "transformers 4.35 modeling_transfo_xl, formulas in float64", 1e-13, after(queries, keys))


# ---- XLNet


def xlnet_case(name, queries, keys, uni=False, clamp=-1, segments=False):
    heads, d, dim = 2, 4, 6
    options = {"softmax": 1, "causal": int(uni), "unidirectional": int(uni)}
    if clamp > 0:
        options["clamp_length"] = clamp
    c = Case(name, "xlnet", 2, heads, heads, queries, keys, d, **options)
    config = XLNetConfig(d_model=heads * d, n_head=heads, d_inner=8, n_layer=1, vocab_size=8, dropout=0.0)
    attention = xlnet.XLNetRelativeAttention(config).double()
    w_r = c.weight("w_r", heads * d, dim)
    attention.r_w_bias.data = c.weight("r_w_bias", heads, d)
    attention.r_r_bias.data = c.weight("r_r_bias", heads, d)
    seg_mat = None
    if segments:
        attention.r_s_bias.data = c.weight("r_s_bias", heads, d)
        attention.seg_embed.data = c.weight("seg_embed", 2, heads, d)
        different = RANDOM.integers(0, 2, (queries, keys))
        c.weight("segments", queries, keys, values=32 * different)
        seg_mat = torch.nn.functional.one_hot(torch.from_numpy(different)[:, :, None].expand(-1, -1, 2), 2).double()
    freq_seq = torch.arange(0, dim, 2.0, dtype=torch.float64)
    pos_seq = torch.arange(keys, -1 if uni else -queries, -1.0, dtype=torch.float64)
    if clamp > 0:
        pos_seq = pos_seq.clamp(-clamp, clamp)
    pos_emb = xlnet.XLNetModel.positional_embedding(pos_seq, 1 / 10000 ** (freq_seq / dim), 2)
    k_head_r = (pos_emb @ w_r.T).view(*pos_emb.shape[:2], heads, d)
    mask = torch.from_numpy(after(queries, keys)).double()[:, :, None, None].expand(-1, -1, 2, heads) if uni else None
    if uni:
        # One row fewer than both ways: the shift then needs the table to be as wide; rows of the future are hidden.
        k_head_r = torch.cat([k_head_r, torch.zeros(queries - 1, *k_head_r.shape[1:], dtype=torch.float64)])
    _, probabilities = attention.rel_attn_core(
        c.q.transpose(0, 1), c.k.transpose(0, 1), c.k.transpose(0, 1), k_head_r, seg_mat, mask, output_attentions=True
    )
    c.expect(probabilities.detach().permute(2, 3, 0, 1), "transformers XLNetRelativeAttention.rel_attn_core", 1e-13)


# ---- DeBERTa


def deberta_case(name, length, buckets, furthest, types):
    heads, d = 2, 2
    c = Case(name, "deberta", 1, heads, heads, length, length, d, position_buckets=buckets, max_relative_positions=furthest,
             c2p=int("c2p" in types), p2c=int("p2c" in types))
    config = DebertaV2Config(hidden_size=heads * d, num_attention_heads=heads, relative_attention=True, position_buckets=buckets,
                             max_relative_positions=furthest, pos_att_type=types, share_att_key=False)
    attention = deberta.DisentangledSelfAttention(config).double()
    span = buckets if buckets > 0 else furthest
    bias = 0
    # The library projects one table twice; identities would make both the same, so each call gets its own table.
    for kind, name in (("c2p", "key_positions"), ("p2c", "query_positions")):
        if kind not in types:
            continue
        table = c.weight(name, heads, 2 * span, d)
        projection = attention.pos_key_proj if kind == "c2p" else attention.pos_query_proj
        projection.weight.data = torch.eye(heads * d, dtype=torch.float64)
        projection.bias.data.zero_()
        attention.pos_att_type = [kind]
        q = c.q.permute(0, 2, 1, 3).reshape(heads, length, d)
        k = c.k.permute(0, 2, 1, 3).reshape(heads, length, d)
        bias = bias + attention.disentangled_attention_bias(
            q, k, None, table.permute(1, 0, 2).reshape(2 * span, heads * d), 1 + len(types))
    scale = math.sqrt(d * (1 + len(types)))
    content = torch.einsum("bihd,bjhd->bhij", c.q, c.k) / scale
    c.expect((content + bias.view(content.shape)).detach(),
             "transformers DisentangledSelfAttention.disentangled_attention_bias", 1e-6)


def deberta_rows(buckets, furthest, reach):
    distances = torch.arange(-reach, reach + 1)
    bucket = deberta.make_log_bucket_position(distances, buckets, furthest)
    rows = torch.clamp(bucket + buckets, 0, 2 * buckets - 1).long().tolist()
    runs = []
    for row in rows:
        if runs and runs[-1][0] == row:
            runs[-1][1] += 1
        else:
            runs.append([row, 1])
    print("deberta_rows", buckets, furthest, reach, *[n for run in runs for n in run])


# ---- Conformer


def conformer_case(name, length):
    heads, d = 2, 4
    c = Case(name, "conformer", 2, heads, heads, length, length, d)
    config = Wav2Vec2ConformerConfig(hidden_size=heads * d, num_attention_heads=heads, position_embeddings_type="relative",
                                     max_source_positions=50)
    attention = conformer.Wav2Vec2ConformerSelfAttention(config).double()
    attention.linear_pos.weight.data = c.weight("w_r", heads * d, heads * d)
    attention.pos_bias_u.data, attention.pos_bias_v.data = c.weight("u", heads, d), c.weight("v", heads, d)
    table = conformer.Wav2Vec2ConformerRelPositionalEmbedding(config)(torch.zeros(1, length, heads * d)).double()
    query, bias = conformer._apply_relative_position_encoding(attention, c.q.transpose(1, 2), c.k.transpose(1, 2), table)
    scores = query @ c.k.permute(0, 2, 3, 1) * attention.scaling + bias
    c.expect(scores.detach(), "transformers Wav2Vec2ConformerSelfAttention, sinusoids in float32", 3e-6)


# ---- Conformers of other classes


def identity(linear):
    """Makes a projection pass its input on."""
    linear.weight.data = torch.eye(*linear.weight.shape, dtype=torch.float64)
    if linear.bias is not None:
        linear.bias.data.zero_()


class Given(torch.nn.Module):
    """A projection whose result is given."""

    def __init__(self, result):
        super().__init__()
        self.result = result

    def forward(self, _):
        return self.result


def fastspeech2_case(name, length):
    heads, d = 2, 4
    c = Case(name, "conformer", 2, heads, heads, length, length, d, softmax=1)
    config = FastSpeech2ConformerConfig(hidden_size=heads * d, encoder_num_attention_heads=heads)
    attention = fastspeech2.FastSpeech2ConformerAttention(config, config.encoder_config).double().eval()
    attention.linear_pos.weight.data = c.weight("w_r", heads * d, heads * d)
    attention.pos_bias_u.data, attention.pos_bias_v.data = c.weight("u", heads, d), c.weight("v", heads, d)
    encoding = fastspeech2.FastSpeech2ConformerRelPositionalEncoding(config, config.encoder_config).eval()
    table = encoding(torch.zeros(1, length, heads * d))[1].double()
    attention.linear_q, attention.linear_k = Given(c.q.flatten(2)), Given(c.k.flatten(2))
    probabilities = attention(torch.zeros(2, length, heads * d, dtype=torch.float64), pos_emb=table, output_attentions=True)[1]
    c.expect(probabilities.detach(), "transformers FastSpeech2ConformerAttention, sinusoids in float32", 3e-6)


def nemotron_case(name, queries, keys):
    """A chunk of a stream, whose keys begin with cached frames."""
    heads, d = 2, 4
    c = Case(name, "conformer", 2, heads, heads, queries, keys, d)
    config = NemotronAsrStreamingEncoderConfig(hidden_size=heads * d, num_attention_heads=heads, num_key_value_heads=heads, num_hidden_layers=1)
    attention = nemotron.NemotronAsrStreamingEncoderAttention(config, 0).double()
    attention.relative_k_proj.weight.data = c.weight("w_r", heads * d, heads * d)
    u, v = c.weight("u", heads, d), c.weight("v", heads, d)
    encoding = nemotron.NemotronAsrStreamingEncoderRelPositionalEncoding(config)
    table = encoding(torch.zeros(2, queries, heads * d), keys - queries).double()
    rows = attention.relative_k_proj(table).view(2, -1, heads, d)
    position = attention._rel_shift((c.q + v).transpose(1, 2) @ rows.permute(0, 2, 3, 1))[..., :keys]
    content = torch.einsum("bihd,bjhd->bhij", c.q + u, c.k)
    c.expect(((content + position) * attention.scaling).detach(),
             "transformers NemotronAsrStreamingEncoderAttention._rel_shift, sinusoids in float32", 3e-6)


def blocks_to_rows(scores, length, past, chunk):
    """[batch, heads, blocks, queries of a block, context] to [batch, heads, queries, keys]; what no context has is NaN."""
    out = np.full((*scores.shape[:2], length, length), np.nan)
    for i in range(length):
        for context in range(scores.shape[4]):
            j = i // chunk * chunk - past + context
            if 0 <= j < length:
                out[:, :, i, j] = scores[:, :, i // chunk, i % chunk, context].detach().numpy()
    return out


def gemma_case(name, third, length, chunk, left, right):
    heads, d = 2, 4
    past = left - 1
    options = {"window_before": left} | ({"window_after": right + 1} if right else {"causal": 1})
    c = Case(name, "conformer", 2, heads, heads, length, length, d, num_heads=heads, concatenated=1, base_inclusive=1, scale=1,
             **options)
    w_r = c.weight("w_r", heads * d, heads * d)
    if third:
        config = Gemma3nAudioConfig(hidden_size=heads * d, conf_num_attention_heads=heads, conf_attention_chunk_size=chunk,
                                    conf_attention_context_left=left, conf_attention_context_right=right)
        attention = gemma3n.Gemma3nAudioAttention(config).double()
        module = attention.relative_position_embedding
        module.pos_proj.weight.data = w_r
        scores = module(attention._convert_to_block(c.q), attention._extract_block_context(c.k))
        allowed = attention.local_causal_valid_mask
    else:
        config = Gemma4AudioConfig(hidden_size=heads * d, num_attention_heads=heads, attention_chunk_size=chunk,
                                   attention_context_left=left, attention_context_right=right)
        attention = gemma4.Gemma4AudioAttention(config, 0).double()
        table = gemma4.Gemma4AudioRelPositionalEncoding(config)(torch.zeros(1, 1, 1)).double()
        queries = attention._convert_to_block(c.q).permute(0, 3, 1, 2, 4)
        content = queries @ attention._extract_block_context(c.k).permute(0, 3, 1, 4, 2)
        rows = (table @ w_r.T).view(-1, heads, d)
        flat = queries.reshape(2, heads, -1, d) @ rows.permute(1, 2, 0)
        scores = content + attention._rel_shift(flat.reshape(2, heads, -1, chunk, rows.shape[0]))
        allowed = torch.ones(chunk, attention.context_size, dtype=torch.bool)
    out = blocks_to_rows(scores, length, past, chunk)
    seen = blocks_to_rows(allowed.double().expand(2, heads, scores.shape[2], -1, -1), length, past, chunk) == 1
    distance = np.arange(length)[:, None] - np.arange(length)[None, :]
    hidden = (distance > past) | (distance < -right)
    assert third and (seen[0, 0] == ~hidden).all() or not third and seen[0, 0][~hidden].all()
    c.expect(np.where(hidden, 0, out), f"transformers Gemma{3 if third else 4} sound encoder, sinusoids in float32", 3e-6, hidden)


def speecht5_case(name, length, longest):
    heads, d = 2, 4
    c = Case(name, "shaw", 2, heads, heads, length, length, d, clip=longest)
    module = speecht5.SpeechT5RelativePositionalEncoding(d, longest).double()
    table = whole(2 * longest, d)
    module.pe_k.weight.data = real(table)
    c.weight("keys", 2 * longest + 1, d, values=np.concatenate([table, table[-1:]]))
    position = torch.einsum("bihd,ijd->bhij", c.q, module(torch.zeros(1, length, d)))
    content = torch.einsum("bihd,bjhd->bhij", c.q, c.k)
    c.expect(((content + position) / math.sqrt(d)).detach(), "transformers SpeechT5RelativePositionalEncoding", 1e-13)


# ---- Inkling: a Shaw term whose queries are a projection of their own


def inkling_case(name, second, queries, keys, extent):
    heads, d = 2, 4
    c = Case(name, "shaw", 2, heads, heads, queries, keys, d, clip=extent, omit_content=1, scale=1)
    table = whole(d, extent)
    rows = np.zeros((2 * extent + 1, d), dtype=np.int64)
    rows[extent:2 * extent] = table.T
    c.weight("keys", 2 * extent + 1, d, values=rows)
    at, of_keys = torch.arange(queries) + keys - queries, torch.arange(keys)
    if second:
        config = inkling2.Inkling2TextConfig(hidden_size=heads * d, d_rel=d, num_hidden_layers=1, rel_l2_clip_threshold=1e9)
        module = inkling2.Inkling2RelativePositionBias(config, heads, extent, False).double()
        identity(module.linear)
        module.proj.data = real(table)
        module.norm.forward = lambda states, positions: states
        bias = module(c.q.flatten(2), (at[:, None] - of_keys[None, :])[None, None], at)
        c.expect(bias.detach(), "transformers Inkling2RelativePositionBias", 1e-13)
        return
    module = inkling.InklingRelativeLogits(d, extent).double()
    module.proj.data = real(table)
    c.expect(module(c.q, at, of_keys).detach(), "transformers InklingRelativeLogits", 1e-13)


# ---- Funnel: XLNet's terms, nothing for the class token, positions that pooling left


def funnel_case(name, length, block, pooled_queries, attention_type="relative_shift", separate_cls=True):
    heads, d = 2, 4
    config = FunnelConfig(d_model=heads * d, n_head=heads, d_head=d, d_inner=8, block_sizes=[1, 1, 1], attention_type=attention_type,
                          hidden_dropout=0.0, attention_dropout=0.0, vocab_size=9, separate_cls=separate_cls)
    structure = funnel.FunnelAttentionStructure(config)
    types = torch.from_numpy(RANDOM.integers(0, 2, (1, length)))
    types[0, 0] = 2
    hidden = torch.zeros(2, length, heads * d, dtype=torch.float64)
    inputs = structure.init_attention_inputs(hidden, torch.ones(2, length, dtype=torch.float64), types.expand(2, -1))
    positions = list(range(length))
    of_keys = positions
    for number in range(1, block + 1):
        hidden, inputs = structure.pre_attention_pooling(hidden, inputs)
        of_keys, positions = positions, structure.stride_pool_pos(positions, number)
        if number < block or not pooled_queries:
            inputs = structure.post_attention_pooling(inputs)
            of_keys = positions
    c = Case(name, "xlnet", 2, heads, heads, len(positions), len(of_keys), d, softmax=1, separate_cls=int(separate_cls))
    c.positions(positions, of_keys)
    attention = funnel.FunnelRelMultiheadAttention(config, block).double()
    w_r = c.weight("w_r", heads * d, heads * d)
    attention.r_kernel.data = w_r.T.reshape(heads * d, heads, d)
    for bias in ("r_w_bias", "r_r_bias", "r_s_bias"):
        getattr(attention, bias).data = c.weight(bias, heads, d)
    rows = whole(2, heads, d)
    attention.seg_embed.data = real(rows)
    c.weight("seg_embed", 2, heads, d, values=rows[::-1])
    same = inputs[1][0]
    c.weight("segments", len(positions), len(of_keys), values=np.where(same.numpy(), 0, 32))
    identity(attention.q_head), identity(attention.k_head)
    inputs = (inputs[0], inputs[1], None, inputs[3])
    q, k = c.q.flatten(2), c.k.flatten(2)
    probabilities = attention(q, k, k, inputs, output_attentions=True)[1]
    c.expect(probabilities.detach(), f"transformers FunnelRelMultiheadAttention ({attention_type})", 1e-6)


# ---- SAM


def sam_case(name, q_size, k_size, rows_h, rows_w):
    heads, d = 2, 4
    c = Case(name, "decomposed", 1, heads, heads, q_size[0] * q_size[1], k_size[0] * k_size[1], d, query_height=q_size[0],
             query_width=q_size[1], key_height=k_size[0], key_width=k_size[1])
    rel_h, rel_w = c.weight("rel_pos_h", rows_h, d), c.weight("rel_pos_w", rows_w, d)
    helper = SamVisionSdpaAttention.__new__(SamVisionSdpaAttention)
    torch.nn.Module.__init__(helper)
    query = c.q[0].transpose(0, 1)
    terms = helper.get_decomposed_rel_pos(query, rel_h, rel_w, q_size, k_size)
    content = (query * d**-0.5) @ c.k[0].permute(1, 2, 0)
    c.expect((content + terms.reshape(content.shape))[None], "transformers SamVisionAttention.get_decomposed_rel_pos", 1e-6)


# ---- Shaw


def shaw_case(name, length, clip, both, key_minus_query):
    heads, d = 2, 4
    c = Case(name, "shaw", 2, heads, heads, length, length, d, clip=clip, query_term_too=int(both),
             key_minus_query=int(key_minus_query))
    table = c.weight("keys", 2 * clip + 1, d)
    distance = torch.arange(length)[:, None] - torch.arange(length)[None, :]
    rows = (-distance if key_minus_query else distance).clamp(-clip, clip) + clip
    scores = torch.einsum("bihd,bjhd->bhij", c.q, c.k) + torch.einsum("bihd,ijd->bhij", c.q, table[rows])
    if both:
        scores = scores + torch.einsum("bjhd,ijd->bhij", c.k, table[rows])
    c.expect(scores / math.sqrt(d), "transformers 4.57 BertSelfAttention (relative_key, relative_key_query), in float64", 1e-13)


# ---- CoPE


def cope_case(name, length, positions):
    heads, d = 2, 4
    c = Case(name, "cope", 2, heads, heads, length, length, d, scale=1)
    module = CoPE(d, heads, positions).double()
    e = c.weight("e", d, positions)
    module.pos_emb.data = e.T.contiguous()
    hidden = after(length, length)
    logits = torch.einsum("bihd,bjhd->bhij", c.q, c.k)
    masked = logits.masked_fill(torch.from_numpy(hidden), -torch.finfo(torch.float64).max)
    scores = logits + module(c.q.transpose(1, 2), masked)
    c.expect(scores.detach(), "x-transformers 2.11.24 CoPE", 1e-12, hidden)


# ---- All together, in 60 digits


def together(name, queries, keys, bias_then_scale):
    heads, key_heads, d = 4, 2, 4
    c = Case(name, "none", 1, heads, key_heads, queries, keys, d, softmax=1, causal=1, rope=1, alibi=1,
             bias_then_scale=int(bias_then_scale))
    mp = mpmath.mpf

    def rotated(whole_numbers, position):
        x = [mp(int(n)) / 32 for n in whole_numbers]
        y = list(x)
        for i in range(d // 2):
            angle = position * mp(10000) ** (-mp(2 * i) / d)
            y[i] = x[i] * mpmath.cos(angle) - x[i + d // 2] * mpmath.sin(angle)
            y[i + d // 2] = x[i + d // 2] * mpmath.cos(angle) + x[i] * mpmath.sin(angle)
        return y

    offset = keys - queries
    out = np.zeros((1, heads, queries, keys))
    for h in range(heads):
        slope = mp(2) ** (-mp(8 * (h + 1)) / heads)
        for i in range(queries):
            q = rotated(c.q_whole[0, i, h], i + offset)
            row = []
            for j in range(i + offset + 1):
                k = rotated(c.k_whole[0, j, h // (heads // key_heads)], j)
                content = sum(a * b for a, b in zip(q, k))
                bias = slope * (j - i - offset)
                scale = 1 / mpmath.sqrt(d)
                row.append((content + bias) * scale if bias_then_scale else content * scale + bias)
            top = max(row)
            terms = [mpmath.exp(s - top) for s in row]
            for j, term in enumerate(terms):
                out[0, h, i, j] = float(term / sum(terms))
    c.expect(out, "mpmath, 60 digits", 1e-14)


transformer_xl("transformer_xl", 5, 8, None)
transformer_xl("transformer_xl_clamped", 4, 9, 3)
xlnet_case("xlnet", 5, 5)
xlnet_case("xlnet_memory_segments", 4, 7, segments=True)
xlnet_case("xlnet_clamped", 5, 8, clamp=2)
xlnet_case("xlnet_unidirectional", 4, 6, uni=True)
deberta_case("deberta", 20, 6, 12, ["p2c", "c2p"])
deberta_case("deberta_without_buckets", 9, -1, 4, ["c2p", "p2c"])
deberta_case("deberta_c2p", 7, 4, 8, ["c2p"])
deberta_case("deberta_p2c", 7, 4, 8, ["p2c"])
conformer_case("conformer", 7)
sam_case("decomposed", (3, 4), (3, 4), 5, 7)
sam_case("decomposed_resized", (4, 3), (4, 3), 3, 9)
sam_case("decomposed_other_grid", (4, 6), (2, 3), 7, 11)
shaw_case("shaw", 8, 3, False, False)
shaw_case("shaw_both", 8, 3, True, False)
shaw_case("shaw_key_minus_query", 6, 2, False, True)
cope_case("cope", 12, 6)
together("scale_then_bias", 4, 6, False)
together("bias_then_scale", 4, 6, True)
deberta_rows(256, 512, 1100)
deberta_rows(32, 128, 300)
fastspeech2_case("fastspeech2", 7)
nemotron_case("nemotron_streaming", 4, 9)
gemma_case("gemma3n_sound", True, 11, 4, 5, 0)
gemma_case("gemma3n_sound_ahead", True, 10, 3, 4, 2)
gemma_case("gemma4_sound", False, 11, 4, 5, 0)
speecht5_case("speecht5", 9, 3)
inkling_case("inkling", False, 5, 9, 4)
inkling_case("inkling2", True, 7, 7, 3)
funnel_case("funnel", 6, 0, False)
funnel_case("funnel_pooled_queries", 8, 1, True)
funnel_case("funnel_pooled", 16, 2, False)
funnel_case("funnel_factorized", 8, 1, True, "factorized")
funnel_case("funnel_class_token_as_any", 8, 1, True, separate_cls=False)
