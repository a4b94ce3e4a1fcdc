"""The model: parameters and their start, gradients by three ways, inputs, dropout, and generation."""

import copy
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import autodiff as ad
import autodiff.functional as F
from autodiff import Tensor, nn, optim
from gpt.config import CHOICES, GPTConfig, preset
from gpt.model import GPT, Cache

TINY = {"vocab_size": 7, "block_size": 6, "n_layer": 2, "n_head": 2, "n_embd": 8, "d_ff": 12, "dtype": "float64"}
FAMILIES = ["toy", "classic"]


@st.composite
def configs(draw, **fixed):
    groups, share = draw(st.sampled_from([(1, 1), (1, 2), (2, 1), (2, 2)]))
    fields = {name: draw(st.sampled_from(choices)) for name, choices in CHOICES.items()}
    for name in ("norm_gain", "embed_norm", "final_norm", "bias", "tied"):
        fields[name] = draw(st.booleans())
    heads = groups * share
    return GPTConfig(**{
        **fields, "vocab_size": 5, "block_size": 4, "n_layer": draw(st.integers(1, 2)), "n_head": heads,
        "n_kv_head": groups, "n_embd": 2 * heads, "d_ff": draw(st.integers(1, 5)), **fixed,
    })  # fmt: skip


def tokens_for(model, rows=3, length=None, seed=0):
    c = model.config
    return np.random.default_rng(seed).integers(0, c.vocab_size, (rows, length or c.block_size))


def loss_of(model, tokens, targets=None):
    return F.cross_entropy(model(tokens), np.roll(tokens, -1) if targets is None else targets)


def gradients_of(model, tokens):
    model.zero_grad()
    loss_of(model, tokens).backward()
    return {name: p.grad for name, p in model.named_parameters()}


def stir(model, seed=1):
    """Move the parameters away from the start, where biases are zero and everything is nearly linear."""
    rng = np.random.default_rng(seed)
    for p in model.parameters():
        p.data += rng.normal(size=p.shape) * 0.3
    return model


def nodes(result):
    seen, stack = {}, [result.node]
    while stack:
        node = stack.pop()
        if node is not None and id(node) not in seen:
            seen[id(node)] = node
            stack.extend(getattr(node, "parents", ()))
    return list(seen.values())


# --- parameters ---


@given(configs())
def test_every_config_makes_a_model_of_the_size_of_the_formula(config):
    model = GPT(config)
    assert model.parameter_count() == config.parameter_count()
    assert {p.dtype for p in model.parameters()} == {np.dtype(config.dtype)}
    tokens = tokens_for(model, rows=2)
    logits = model(tokens)
    assert logits.shape == (2, 4, 5)
    loss_of(model, tokens).backward()
    assert all(p.grad is not None for p in model.parameters())


@given(configs())
def test_every_node_has_the_models_dtype(config):
    model = GPT(config).train()
    for context in (ad.no_grad(), ad.decompose(), ad.scope("plain")):
        with context:
            loss = loss_of(model, tokens_for(model))
            assert loss.dtype == config.dtype
            for node in nodes(loss):
                dtypes = node.dtype if isinstance(node.dtype, list) else [node.dtype]
                assert set(dtypes) == {np.dtype(config.dtype)}, node
            if loss.requires_grad:
                loss.backward()
    assert {p.grad.dtype for p in model.parameters()} == {np.dtype(config.dtype)}


def test_names_are_paths_in_the_order_of_the_forward_pass():
    names = [name for name, _ in GPT(preset("toy", **TINY | {"n_layer": 1})).named_parameters()]
    assert names == [
        "embedding.weight", "blocks.0.norm1.gamma", "blocks.0.attn.qkv.weight", "blocks.0.attn.proj.weight",
        "blocks.0.norm2.gamma", "blocks.0.mlp.w1.weight", "blocks.0.mlp.w3.weight", "blocks.0.mlp.w2.weight",
        "final_norm.gamma", "head.weight",
    ]  # fmt: skip
    names = [name for name, _ in GPT(preset("gpt2", **TINY | {"n_layer": 1})).named_parameters()]
    assert names == [
        "embedding.weight", "positions.weight", "blocks.0.norm1.gamma", "blocks.0.norm1.beta",
        "blocks.0.attn.qkv.weight", "blocks.0.attn.qkv.bias", "blocks.0.attn.proj.weight", "blocks.0.attn.proj.bias",
        "blocks.0.norm2.gamma", "blocks.0.norm2.beta", "blocks.0.mlp.up.weight", "blocks.0.mlp.up.bias",
        "blocks.0.mlp.down.weight", "blocks.0.mlp.down.bias", "final_norm.gamma", "final_norm.beta",
    ]  # fmt: skip


def test_nodes_say_in_which_part_they_were_made():
    model = GPT(preset("classic", **TINY))
    scopes = {node.scope for node in nodes(model(tokens_for(model))) if hasattr(node, "scope")}
    assert {"", "embedding", "blocks.0.norm1", "blocks.1.attn", "blocks.1.attn.qkv", "blocks.0.mlp.down"} <= scopes
    assert "head" in scopes


@pytest.mark.parametrize("mlp", CHOICES["mlp"])
def test_weights_start_as_in_gpt2(mlp):
    layers = 8
    model = GPT(GPTConfig(vocab_size=500, n_layer=layers, n_embd=64, mlp=mlp, bias=True, tied=False))
    scaled = {f"blocks.{i}.{name}.weight" for i in range(layers) for name in ("attn.proj", "mlp.down", "mlp.w2")}
    seen = set()
    for name, p in model.named_parameters():
        if name.endswith(("bias", "beta")):
            assert not p.data.any()
        elif name.endswith("gamma"):
            assert (p.data == 1).all()
        else:
            std = 0.02 / math.sqrt(2 * layers) if name in scaled else 0.02
            assert p.data.std() == pytest.approx(std, rel=0.05), name
            assert abs(p.data.mean()) < std / 10
            seen.add(name in scaled)
    assert seen == {True, False}


@pytest.mark.parametrize("vocab_size", [27, 65])
def test_the_first_loss_is_that_of_knowing_nothing(vocab_size):
    for name in ("toy", "nano", "micro"):
        model = GPT(preset(name, vocab_size=vocab_size))
        tokens = tokens_for(model, rows=8)
        targets = np.random.default_rng(1).integers(0, vocab_size, tokens.shape)
        assert loss_of(model, tokens, targets).item() == pytest.approx(math.log(vocab_size), rel=0.02)


def test_a_seed_makes_the_model_and_another_seed_another():
    config = preset("toy", **TINY)
    one, same, other = (GPT(config, rng=seed).state_dict() for seed in (0, 0, 1))
    single = GPT(preset("toy", **TINY | {"dtype": "float32"}), rng=0).state_dict()
    for name, value in one.items():
        np.testing.assert_array_equal(value, same[name])
        np.testing.assert_array_equal(value.astype(np.float32), single[name])
        assert np.array_equal(value, other[name]) == name.endswith("gamma")
    a, b = (GPT(config, rng=np.random.default_rng(0)).state_dict() for _ in range(2))
    np.testing.assert_array_equal(a["head.weight"], b["head.weight"])
    np.testing.assert_array_equal(a["head.weight"], one["head.weight"])


def test_a_fixed_table_of_positions_is_the_papers():
    model = GPT(preset("classic", **TINY | {"n_embd": 4}))
    expected = [[0, 1, 0, 1], [0.841471, 0.540302, 0.01, 0.99995], [0.909297, -0.416147, 0.019999, 0.9998]]
    np.testing.assert_allclose(model.sinusoids[:3], expected, atol=1e-6)
    assert "sinusoids" not in model.state_dict()


def test_only_a_config_will_do():
    with pytest.raises(TypeError, match="must be a GPTConfig, not str"):
        GPT("toy")


# --- gradients ---


@pytest.mark.parametrize("name", FAMILIES)
def test_fused_decomposed_and_numerical_gradients_agree(name):
    model = stir(GPT(preset(name, **TINY)))
    tokens = tokens_for(model)
    fused = gradients_of(model, tokens)
    with ad.decompose():
        decomposed = gradients_of(model, tokens)
    rng, step = np.random.default_rng(3), 1e-5

    def loss():
        with ad.no_grad():
            return loss_of(model, tokens).item()

    for key, p in model.named_parameters():
        assert np.abs(fused[key] - decomposed[key]).max() <= 1e-12 * np.abs(fused[key]).max()
        for index in rng.choice(p.size, size=min(p.size, 12), replace=False):
            place = np.unravel_index(index, p.shape)
            before, slopes = p.data[place], []
            for h in (step, -step):
                p.data[place] = before + h
                slopes.append(loss())
            p.data[place] = before
            numerical = (slopes[0] - slopes[1]) / (2 * step)
            for gradients in (fused, decomposed):
                assert gradients[key][place] == pytest.approx(numerical, rel=1e-6, abs=1e-8), (key, place)


def test_the_graph_is_small_unless_it_is_taken_apart():
    model = GPT(preset("toy", **TINY))
    tokens = tokens_for(model)
    fused = {node.op.name for node in nodes(loss_of(model, tokens)) if hasattr(node, "op")}
    assert {"cross_entropy", "rms_norm", "scaled_dot_product_attention", "swiglu", "rope", "linear"} <= fused
    with ad.decompose():
        taken_apart = {node.op.name for node in nodes(loss_of(model, tokens)) if hasattr(node, "op")}
    assert not {"cross_entropy", "rms_norm", "scaled_dot_product_attention", "swiglu", "rope", "linear"} & taken_apart


@pytest.mark.parametrize("tied", [True, False])
def test_a_row_of_the_table_gets_what_its_uses_give(tied):
    model = stir(GPT(preset("toy", **TINY | {"tied": tied})))
    tokens, targets = np.array([[1, 3, 3, 3]]), np.array([[3, 3, 3, 1]])
    loss_of(model, tokens, targets).backward()
    grad = model.embedding.weight.grad
    unused = [0, 2, 4, 5, 6]

    # the part of the look-up: leaves in the place of the looked-up rows
    rows = Tensor(model.embedding.weight.data[tokens], requires_grad=True)
    model.embedding.forward = lambda ids: rows
    model.zero_grad()
    loss_of(model, tokens, targets).backward()
    look_up = np.zeros(grad.shape)
    np.add.at(look_up, tokens, rows.grad)
    head = model.embedding.weight.grad if tied else np.zeros(grad.shape)
    np.testing.assert_allclose(grad, look_up + head, rtol=1e-12, atol=1e-15)
    assert not grad[unused].any() if not tied else np.array_equal(grad[unused], head[unused])
    assert sum("head" in name for name, _ in model.named_parameters()) == (not tied)
    assert look_up[3].any()


def test_a_tied_table_is_one_parameter_in_one_group():
    model = GPT(preset("classic", **TINY))
    assert sum(p is model.embedding.weight for p in model.parameters()) == 1
    groups = optim.decay_groups(model, 0.1)
    assert sum(p is model.embedding.weight for group in groups for p in group["params"]) == 1
    assert sum(p.size for group in groups for p in group["params"]) == model.config.parameter_count()


def test_sharing_between_blocks_is_reported():
    model = GPT(preset("toy", **TINY))
    tokens = tokens_for(model)
    model.blocks[1].attn.qkv.weight = model.blocks[0].attn.qkv.weight
    with pytest.warns(UserWarning, match=r"blocks.0.attn.qkv.weight and blocks.1.attn.qkv.weight are one"):
        parameters = dict(model.named_parameters())
    assert len(parameters) == len(GPT(model.config).state_dict()) - 1
    # what makes it a trap: the gradient of the shared model is right
    with pytest.warns(UserWarning, match="are one and the same"):
        fused = gradients_of(model, tokens)
    with ad.decompose(), pytest.warns(UserWarning, match="are one and the same"):
        np.testing.assert_allclose(
            gradients_of(model, tokens)["blocks.0.attn.qkv.weight"], fused["blocks.0.attn.qkv.weight"], rtol=1e-10
        )
    model = GPT(preset("toy", **TINY))
    array = model.blocks[0].mlp.w2.weight.data
    model.blocks[1].mlp.w2.weight = ad.as_tensor(array)  # another tensor, the same memory
    model.blocks[1].mlp.w2.weight.requires_grad = True
    with pytest.warns(UserWarning, match=r"blocks.0.mlp.w2.weight and blocks.1.mlp.w2.weight"):
        list(model.parameters())
    assert GPT(preset("classic", **TINY)).shared_parameters() == []


def test_the_loop_of_every_tutorial():
    model = GPT(preset("toy", **TINY), rng=0)
    optimizer = optim.AdamW(model.parameters(), lr=0.01)
    tokens = tokens_for(model)
    targets = np.roll(tokens, -1, axis=1)
    losses = []
    for _ in range(60):
        logits = model(tokens)
        loss = F.cross_entropy(logits, targets)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    assert losses[0] == pytest.approx(math.log(7), rel=0.02)
    assert losses[-1] < 0.2
    assert all(p.grad is None for p in model.parameters())


# --- inputs ---


def test_tokens_may_be_a_list_an_array_or_a_tensor_of_one_row_or_several():
    model = stir(GPT(preset("toy", **TINY)))
    tokens = tokens_for(model, rows=2)
    reference = model(tokens).data
    for form in (tokens.tolist(), Tensor(tokens), tokens.astype(np.uint8), tokens.astype(np.int32)):
        np.testing.assert_array_equal(model(form).data, reference)
    one = model(tokens[1])
    assert one.shape == (6, 7)
    np.testing.assert_allclose(one.data, reference[1], rtol=1e-12, atol=1e-14)
    assert model([3]).shape == (1, 7)


@pytest.mark.parametrize(("tokens", "error", "message"), [
    ([[0, 7]], ValueError, "7.*V = 7"), ([[0, -1]], ValueError, "-1"), ([[0.0, 1.0]], TypeError, "integers"),
    ([[True]], TypeError, "integers"),
    ([[0] * 7], ValueError, r"7 tokens are more than block_size=6.*tokens\[:, -6:\]"),
    ([], ValueError, r"at least one token, not \(1, 0\)"), ([[]], ValueError, "at least one token"),
    (3, ValueError, r"not \(\)"), ([[[1]]], ValueError, r"not \(1, 1, 1\)"), (["a"], TypeError, "integers"),
])  # fmt: skip
def test_tokens_that_do_not_fit_are_refused(tokens, error, message):
    with pytest.raises(error, match=message):
        GPT(preset("toy", **TINY))(tokens)


def test_a_window_that_fits_exactly_is_accepted():
    assert GPT(preset("toy", **TINY))([[0] * 6]).shape == (1, 6, 7)


@pytest.mark.parametrize("name", [*FAMILIES, "micro"])
def test_huge_and_constant_activations_stay_finite(name):
    model = GPT(preset(name, **TINY | {"dtype": "float32"}))
    for scale in (1e4, -1e4, 0.0):
        model.embedding.weight.data = np.full(model.embedding.weight.shape, scale)
        loss = loss_of(model, tokens_for(model))
        model.zero_grad()
        loss.backward()
        assert np.isfinite(loss.item())
        assert all(np.isfinite(p.grad).all() for p in model.parameters())


# --- dropout ---


def test_dropout_acts_in_training_and_only_there():
    model = GPT(preset("toy", **TINY | {"dropout": 0.2}), rng=0)
    tokens = tokens_for(model)
    assert not np.array_equal(model(tokens).data, model(tokens).data)
    model.eval()
    first = model(tokens).data
    assert np.array_equal(first, model(tokens).data)
    assert not any(module.training for module in model.modules())
    plain = GPT(preset("toy", **TINY))
    plain.load_state_dict(model.state_dict())
    np.testing.assert_array_equal(plain(tokens).data, first)
    assert not np.array_equal(model.train()(tokens).data, first)


def test_every_place_of_dropout_has_its_own_mask():
    """Embedding, attention and both branches of two blocks: seven sites, each of which changes the result."""
    model = stir(GPT(preset("toy", **TINY | {"dropout": 0.3})))
    tokens = tokens_for(model)

    def run(parts):
        model.eval()
        for part in parts:
            part.train()
        with nn.dropout_stream(1, 1):
            return model(tokens).data

    sites = [module for module in model.modules() if isinstance(module, nn.Dropout)]
    assert len(sites) == 7
    results = [run([]), *(run([site]) for site in sites), run(sites)]
    for i, one in enumerate(results):
        assert not any(np.array_equal(one, other) for other in results[:i])


def test_masks_do_not_depend_on_how_a_batch_is_cut():
    model = stir(GPT(preset("classic", **TINY | {"dropout": 0.3})))
    tokens = tokens_for(model, rows=4)

    def logits(rows):
        with nn.dropout_stream(seed=3, step=9, first_row=rows.start or 0):
            return model(tokens[rows]).data

    whole = logits(slice(None))
    parts = [logits(slice(start, start + 2)) for start in (0, 2)]
    np.testing.assert_allclose(np.concatenate(parts), whole, rtol=1e-12, atol=1e-14)
    with ad.decompose():
        np.testing.assert_allclose(logits(slice(None)), whole, rtol=1e-11, atol=1e-13)


def test_gradients_with_dropout_agree_fused_and_decomposed():
    model = stir(GPT(preset("toy", **TINY | {"dropout": 0.3})))
    tokens = tokens_for(model)
    with nn.dropout_stream(1, 2):
        fused = gradients_of(model, tokens)
    with ad.decompose(), nn.dropout_stream(1, 2):
        decomposed = gradients_of(model, tokens)
    for name, g in fused.items():
        assert np.abs(g - decomposed[name]).max() <= 1e-12 * np.abs(g).max()


# --- generation ---


def by_hand(model, prompt, count):
    """Greedy, recomputing everything: what every shortcut must equal."""
    ids = list(prompt)
    with ad.no_grad():
        for _ in range(count):
            ids.append(int(np.argmax(model(ids[-model.config.block_size :]).data[-1])))
    return ids


@pytest.mark.parametrize("name", [*FAMILIES, "micro", "gpt2", "llama-toy"])
def test_greedy_text_runs_past_the_window_and_equals_recomputation(name):
    changes = TINY | ({"n_kv_head": 1} if name == "llama-toy" else {})
    model = stir(GPT(preset(name, **changes)), seed=4)
    for length in (1, 3, 5, 6):  # the last one fills the window exactly
        prompt = tokens_for(model, rows=1, length=length, seed=length)[0]
        out = model.generate(prompt, 3 * 6, temperature=0)
        assert out.dtype == np.int64
        assert out.tolist() == by_hand(model, prompt, 3 * 6)
        assert model.generate(prompt, 18, temperature=0, rng=5).tolist() == out.tolist()
        assert model.generate(prompt, 18, top_k=1, rng=6).tolist() == out.tolist()
        assert model.generate(prompt, 18, top_k=1, top_p=0.8, temperature=0.01, rng=7).tolist() == out.tolist()
    assert len(set(out.tolist())) > 2


def test_a_longer_prompt_is_cropped_with_a_notice_and_returned_whole():
    model = stir(GPT(preset("toy", **TINY)))
    prompt = tokens_for(model, rows=1, length=9)[0]
    with pytest.warns(UserWarning, match="prompt has 9 tokens, the model sees only the last block_size=6"):
        out = model.generate(prompt, 3, temperature=0)
    assert out[:9].tolist() == prompt.tolist()
    assert out[9:].tolist() == model.generate(prompt[3:], 3, temperature=0)[6:].tolist()


def test_rows_are_independent():
    model = stir(GPT(preset("toy", **TINY)))
    prompts = np.array([[1, 2], [1, 2], [3, 4]])
    out = model.generate(prompts, 12, rng=3)
    assert out.shape == (3, 14)
    assert not np.array_equal(out[0], out[1])
    np.testing.assert_array_equal(model.generate(prompts[:1], 12, rng=3), out[:1])
    np.testing.assert_array_equal(model.generate(prompts[0], 12, rng=3), out[0])
    np.testing.assert_array_equal(model.generate([[1, 2], [1, 2], [5, 6]], 12, rng=3)[:2], out[:2])
    np.testing.assert_array_equal(model.generate(prompts, 12, rng=np.random.default_rng(3)), out)
    assert not np.array_equal(model.generate(prompts, 12, rng=4), out)


def test_generation_leaves_no_trace():
    model = stir(GPT(preset("toy", **TINY | {"dropout": 0.5})))
    model.blocks[1].eval()
    flags = [module.training for module in model.modules()]
    state = np.random.get_state()[1].copy()  # noqa: NPY002  # the global state, which must not be touched
    prompt = np.array([1, 2])
    first = model.generate(prompt, 8, temperature=0)
    np.testing.assert_array_equal(model.generate(prompt, 8, temperature=0), first)  # dropout is off
    assert [module.training for module in model.modules()] == flags
    assert np.array_equal(state, np.random.get_state()[1])  # noqa: NPY002
    assert prompt.tolist() == [1, 2]
    assert all(p.grad is None for p in model.parameters())
    model.head.weight.data[0, 0] = math.nan
    with pytest.raises(ValueError, match="NaN"):
        model.generate([0], 3)
    assert [module.training for module in model.modules()] == flags


def test_no_new_tokens_returns_the_prompt():
    assert GPT(preset("toy", **TINY)).generate([[1, 2]], 0).tolist() == [[1, 2]]


@pytest.mark.parametrize(("arguments", "error", "message"), [
    ({"temperature": -1}, ValueError, "temperature=-1"), ({"temperature": math.nan}, ValueError, "temperature=nan"),
    ({"temperature": math.inf}, ValueError, "temperature=inf"), ({"top_k": -3}, ValueError, "top_k=-3"),
    ({"top_p": 0.0}, ValueError, "top_p=0.0"), ({"max_new_tokens": -1}, ValueError, "max_new_tokens=-1"),
    ({"max_new_tokens": 2.0}, ValueError, "max_new_tokens=2.0"),
    ({"ids": []}, ValueError, "prompt is empty; give at least"),
    ({"ids": [[], []]}, ValueError, "prompt is empty"), ({"ids": 3}, ValueError, r"shape \[T\] or \[B, T\], not \(\)"),
    ({"ids": [1.0]}, TypeError, "integers, not float64"), ({"ids": [7]}, ValueError, "7"),
    ({"ids": [-1]}, ValueError, "-1"),
])  # fmt: skip
def test_generation_refuses_what_it_cannot_do(arguments, error, message):
    model = GPT(preset("toy", **TINY))
    with pytest.raises(error, match=message):
        model.generate(**{"ids": [1], "max_new_tokens": 2, **arguments})


def test_top_k_beyond_the_vocabulary_is_off():
    model = stir(GPT(preset("toy", **TINY)))
    reference = model.generate([1], 10, rng=1)
    for k in (0, None, 7, 1000):
        np.testing.assert_array_equal(model.generate([1], 10, top_k=k, rng=1), reference)
    assert model.generate([1], 40, rng=1).max() < 7


def test_a_cache_refuses_what_it_cannot_hold():
    model = GPT(preset("toy", **TINY))
    with pytest.raises(RuntimeError, match="no_grad"):
        model([[1]], cache=Cache(model.config, 1))
    with ad.no_grad():
        with pytest.raises(ValueError, match="cache is for 2 rows, given 1"):
            model([[1]], cache=Cache(model.config, 2))
        cache = Cache(model.config, 1)
        model([[1, 2, 3, 4]], cache=cache)
        with pytest.raises(ValueError, match="3 tokens after the 4 in the cache are more than block_size=6"):
            model([[1, 2, 3]], cache=cache)
        assert cache.length == 4


# --- copies ---


def test_a_model_can_be_copied_and_saved():
    model = stir(GPT(preset("classic", **TINY)))
    tokens = tokens_for(model)
    twin = copy.deepcopy(model)
    np.testing.assert_array_equal(twin(tokens).data, model(tokens).data)
    twin.embedding.weight.data[...] = 0
    fresh = GPT(model.config, rng=9)
    fresh.load_state_dict(model.state_dict())
    np.testing.assert_array_equal(fresh(tokens).data, model(tokens).data)
    with pytest.raises(ValueError, match=r"missing: head\.weight"):
        GPT(preset("classic", **TINY | {"tied": False})).load_state_dict(model.state_dict())


def test_repr_and_summary_show_the_model():
    model = GPT(preset("toy", **TINY))
    text = repr(model)
    assert text.startswith("GPT(vocab_size=7, block_size=6, pos='rope', tied=False\n  embedding: Embedding(7, 8)")
    assert "blocks.0 to blocks.1: Block(" in text
    assert model.summary().splitlines()[-1].split() == ["total", f"{model.config.parameter_count():,}"]


@settings(max_examples=20)
@given(configs(dtype="float64", pos="learned"), st.integers(1, 4))
def test_shorter_windows_are_the_beginnings_of_longer_ones(config, length):
    model = stir(GPT(config))
    tokens = tokens_for(model, rows=2)
    np.testing.assert_allclose(model(tokens[:, :length]).data, model(tokens).data[:, :length], rtol=1e-9, atol=1e-11)


def test_targets_belong_to_the_loss_not_to_the_model():
    model = GPT(preset("tiny"), rng=0)
    with pytest.raises(TypeError, match=r"F\.cross_entropy\(model\(tokens\), targets\)"):
        model([[1, 2]], np.array([[2, 3]]))
