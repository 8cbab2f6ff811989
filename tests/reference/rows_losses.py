"""Losses composed of other functions."""
import torch

from generate import Input, near, whole

F = torch.nn.functional
REAL = ("f32", "f16")
HOW = [{"reduction": r} for r in ("mean", "sum", "none")]


def signs(*values):
    return Input((len(values),), values=list(values), grad=False)


def with_(args, **more):
    return [{**a, **more} for a in args]


def reduced(losses, reduction):
    return losses.mean() if reduction == "mean" else losses.sum() if reduction == "sum" else losses


def cross_entropy(x, t, *weight, reduction="mean", ignore_index=-100, label_smoothing=0.0):
    return F.cross_entropy(x, t if t.is_floating_point() else t.long(), *weight, reduction=reduction,
        ignore_index=ignore_index, label_smoothing=label_smoothing)


def focal(x, y, alpha=0.25, gamma=2.0, reduction="none"):
    p = torch.sigmoid(x)
    losses = F.binary_cross_entropy_with_logits(x, y, reduction="none") * (1 - (p * y + (1 - p) * (1 - y))) ** gamma
    return reduced(losses * (alpha * y + (1 - alpha) * (1 - y)) if alpha >= 0 else losses, reduction)


def dice(p, y, smooth=1.0, reduction="mean"):
    axes = tuple(range(1, p.dim()))
    return reduced(1 - (2 * (p * y).sum(axes) + smooth) / (p.sum(axes) + y.sum(axes) + smooth), reduction)


def adaptive(x, targets, head, *tails):
    """torch.nn.AdaptiveLogSoftmaxWithLoss with these weights; without tails it is the log-softmax."""
    sizes = [t.shape[0] for t in tails[1::2]]
    if not sizes:
        output = torch.log_softmax(x @ head.T, 1).gather(1, targets.long()[:, None])[:, 0]
        return [output, -output.mean()]
    cutoffs = [head.shape[0] - len(sizes)]
    for n in sizes:
        cutoffs.append(cutoffs[-1] + n)
    module = torch.nn.AdaptiveLogSoftmaxWithLoss(x.shape[1], cutoffs[-1], cutoffs[:-1]).to(x.dtype)
    weights = {"head.weight": head, **{f"tail.{k // 2}.{k % 2}.weight": t for k, t in enumerate(tails)}}
    return list(torch.func.functional_call(module, weights, (x, targets.long()), strict=False))


def rows(row):
    plain = [(9, 5), whole((9,), 0, 5)]
    ignored = [(6, 5), Input((6,), values=[0, 2, 4, 2, 1, 2], dtype="i64", grad=False)]
    row("cross_entropy", cross_entropy, [plain], with_(HOW, label_smoothing=0.1), dtypes=("f32", "f16"), out="f32")
    row("cross_entropy", cross_entropy, [[*plain, near(0.2, 2, 5, grad=False)]], [*HOW, *with_(HOW, label_smoothing=0.3)])
    row("cross_entropy", cross_entropy, [ignored, [*ignored, near(0.2, 2, 5, grad=False)]],
        [*with_(HOW, ignore_index=2), {"ignore_index": 2, "label_smoothing": 0.2}])
    row("cross_entropy", cross_entropy, [[(2, 4, 3, 2), whole((2, 3, 2), 0, 4)], [(2, 4, 3), near(0, 1, 2, 4, 3)]],
        [{"label_smoothing": 0.1}, {"label_smoothing": 0.1, "reduction": "none"}])
    row("binary_cross_entropy", lambda p, y, reduction: F.binary_cross_entropy(p, y, reduction=reduction),
        [[near(0.02, 0.98, 4, 9), near(0, 1, 4, 9)]], HOW, dtypes=REAL)
    row("binary_cross_entropy", lambda p, y, reduction: F.binary_cross_entropy(p, y, reduction=reduction),
        [[Input((4,), values=[0.0, 1.0, 0.0, 1.0], grad=False), signs(0, 1, 1, 0)]], HOW)
    row("smooth_l1_loss", lambda x, y, beta, reduction: F.smooth_l1_loss(x, y, beta=beta, reduction=reduction),
        [[(4, 9), (4, 9)]], [{**h, "beta": b} for h in HOW for b in (1.0, 0.5, 0.0)], dtypes=REAL)
    pm = signs(1, -1, -1, 1, 1, -1, 1)
    row("soft_margin_loss", lambda x, y, reduction: F.soft_margin_loss(x, y, reduction=reduction), [[(7,), pm], [near(-60, 60, 7), pm]], HOW, dtypes=REAL)
    row("hinge_embedding_loss", lambda x, y, margin, reduction: F.hinge_embedding_loss(x, y, margin,
        reduction=reduction), [[(7,), pm]], [{**h, "margin": m} for h in HOW for m in (1.0, 0.3)], dtypes=REAL)
    row("margin_ranking_loss", lambda a, b, y, margin, reduction: F.margin_ranking_loss(a, b, y, margin,
        reduction=reduction), [[(7,), (7,), pm]], [{**h, "margin": m} for h in HOW for m in (0.0, 0.3)], dtypes=REAL)
    row("cosine_embedding_loss", lambda a, b, y, margin=0.0, reduction="mean": F.cosine_embedding_loss(a, b, y, margin,
        reduction=reduction), [[(7, 5), (7, 5), pm]], [*HOW, *with_(HOW, margin=0.3)], dtypes=REAL)
    row("cosine_embedding_loss", lambda a, b, y: F.cosine_embedding_loss(a, b, y), [[(5,), (5,), Input((), values=1.0, grad=False)]])
    row("triplet_margin_loss", lambda a, b, c, **how: F.triplet_margin_loss(a, b, c, **how), [[(4, 9), (4, 9), (4, 9)], [(9,), (9,), (9,)]],
        [*HOW, {"margin": 2.0, "p": 1.0}, {"swap": True}, {"p": 3.0, "margin": 3.0}], dtypes=REAL)
    manhattan = lambda a, b: (a - b).abs().sum(1)
    row("triplet_margin_with_distance_loss", lambda a, b, c, **how: F.triplet_margin_with_distance_loss(a, b, c,
        distance_function=manhattan, **how), [[(4, 9), (4, 9), (4, 9)]],
        [*HOW, {"margin": 2.0, "swap": True}], dtypes=REAL)
    row("adaptive_log_softmax_with_loss", adaptive,
        [[(7, 6), Input((7,), values=[0, 3, 4, 6, 7, 8, 11], dtype="i64", grad=False), (6, 6), (3, 6), (3, 3), (2, 6),
        (5, 2)],
                                                     [(3, 4), whole((3,), 0, 5), (5, 4)]], dtypes=REAL)
    row("multi_margin_loss", lambda x, t, p=1, margin=1.0, reduction="mean": F.multi_margin_loss(x, t.long(), p, margin,
        reduction=reduction), [plain], [*HOW, *with_(HOW, p=2, margin=0.7)], dtypes=REAL)
    listed = Input((3, 5), values=[[2, 0, -1, 3, 1], [-1, 2, 2, 2, 2], [4, 3, 2, 1, 0]], dtype="i32", grad=False)
    row("multilabel_margin_loss", lambda x, t, reduction: F.multilabel_margin_loss(x, t.long(), reduction=reduction), [[(3, 5), listed]], HOW, dtypes=REAL)
    row("multilabel_soft_margin_loss", lambda x, y, reduction: F.multilabel_soft_margin_loss(x, y, reduction=reduction),
        [[(4, 9), near(0, 1, 4, 9)]], HOW, dtypes=REAL)
    row("poisson_nll_loss", lambda x, y, log_input=True, stirling=False,
        reduction="mean": F.poisson_nll_loss(x, y, log_input, stirling, reduction=reduction),
        [[near(0.1, 2, 4, 9), near(0, 5, 4, 9)]],
        [*HOW, {"stirling": True}, {"log_input": False}, {"log_input": False, "stirling": True}], dtypes=REAL)
    row("gaussian_nll_loss", lambda x, y, v, constant=False, reduction="mean": F.gaussian_nll_loss(x, y, v, full=constant, reduction=reduction),
        [[(4, 9), (4, 9), near(0.2, 2, 4, 9)], [(4, 9), (4, 9), near(0.2, 2, 4, 1)]], [*HOW, {"constant": True}], dtypes=REAL)
    row("sigmoid_focal_loss", focal, [[near(-6, 6, 4, 9), near(0, 1, 4, 9)]], [{}, *HOW, {"alpha": -1.0, "gamma": 1.5}, {"gamma": 0.0}], dtypes=REAL)
    row("dice_loss", dice, [[near(0, 1, 3, 4, 5), near(0, 1, 3, 4, 5)]], [*HOW, {"smooth": 0.5}], dtypes=REAL)
