"""Trains a small network with PyTorch: `torch_train.py transformer|convnet STEPS`. The losses are the result."""

import sys

import common

KIND, STEPS = sys.argv[1], int(sys.argv[2])
torch = common.torch_in_turn("torch_train")

from torch import nn  # noqa: E402  (only where there is PyTorch)


class Transformer(nn.Module):
    def __init__(self, words=512, width=128):
        super().__init__()
        self.words = words
        self.embed = nn.Embedding(words, width)
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True)
        self.body = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(width, words)

    def batch(self, step):
        length = 48 + 16 * (step % 4)  # sizes vary, as real batches do
        ramp = torch.arange(length, device="cuda").unsqueeze(0) + torch.arange(16, device="cuda").unsqueeze(1)
        return (ramp * 7 + step) % self.words, (ramp * 7 + step + 7) % self.words

    def loss(self, step):
        source, target = self.batch(step)
        return nn.functional.cross_entropy(self.head(self.body(self.embed(source))).flatten(0, 1), target.flatten())


class ConvNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(32, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU(), nn.AdaptiveAvgPool2d(4),
            nn.Flatten(), nn.Linear(64 * 16, 10))

    def loss(self, step):
        generator = torch.Generator(device="cuda").manual_seed(step)
        images = torch.randn(32, 3, 32 + 8 * (step % 3), 32, device="cuda", generator=generator)
        labels = torch.arange(32, device="cuda") % 10
        return nn.functional.cross_entropy(self.body(images), labels)


torch.manual_seed(1)
torch.backends.cudnn.benchmark = False
torch.use_deterministic_algorithms(True, warn_only=True)
model = (Transformer() if KIND == "transformer" else ConvNet()).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
clock = common.Clock()
losses = []
for number in range(STEPS):
    if number == 3:
        torch.cuda.synchronize()
        clock.begin()
    optimizer.zero_grad()
    value = model.loss(number)
    value.backward()
    optimizer.step()
    losses.append(value.item())
torch.cuda.synchronize()
clock.begin()
clock.report()
common.fact("steps", STEPS)
common.fact("result: first loss", losses[0])
common.fact("result: last loss", losses[-1])
common.fact("result: mean loss", sum(losses) / len(losses))
common.fact("version", torch.__version__)
common.finish("torch_train")
