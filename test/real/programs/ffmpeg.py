"""FFmpeg of Debian: frames that go up to the device and come back. Filters that compute there need kernels."""

from program import Case, Program

SOURCE = ["-f", "lavfi", "-i", "testsrc=size=640x360:rate=10:duration=2"]
WARNINGS = [(r" @ 0x[0-9a-f]+", "")]
UP_AND_DOWN = "format=%s,hwupload_cuda,hwdownload,format=%s"


def case(label, *arguments):
    return Case(label, ["ffmpeg", "-hide_banner", "-nostdin", "-nostats", "-loglevel", "warning", *arguments], normalize=WARNINGS)


PROGRAM = Program(
    title="FFmpeg: hwupload_cuda, hwdownload",
    version=["dpkg-query", "-W", "-f", "${Version}", "ffmpeg"],
    packages=["ffmpeg"],
    cases=[case("up and down, " + pixels, "-init_hw_device", "cuda=gpu:0", *SOURCE, "-vf", UP_AND_DOWN % (pixels, pixels),
                "-f", "framemd5", "-") for pixels in ("nv12", "yuv420p", "yuv444p", "p010", "bgr0")] + [
        case("the primary context", "-init_hw_device", "cuda=gpu:0,primary_ctx=1", "-filter_hw_device", "gpu", *SOURCE,
             "-vf", "format=nv12,hwupload,hwdownload,format=nv12", "-f", "framemd5", "-"),
        case("two graphs of filters", "-init_hw_device", "cuda", *SOURCE, *SOURCE, "-filter_complex",
             "[0:v]%s[a];[1:v]hflip,%s[b];[a][b]hstack" % ((UP_AND_DOWN % ("nv12", "nv12"),) * 2), "-f", "framemd5", "-"),
        case("a size that changes", "-init_hw_device", "cuda", *SOURCE, "-vf",
             "scale=w='320+16*n':h=240:eval=frame,format=nv12,hwupload_cuda,hwdownload,format=nv12", "-f", "framemd5", "-"),
        Case("a file", ["ffmpeg", "-hide_banner", "-nostdin", "-nostats", "-loglevel", "warning", "-init_hw_device", "cuda", *SOURCE,
                        "-vf", UP_AND_DOWN % ("yuv420p", "yuv420p"), "-f", "rawvideo", "frames.yuv"], normalize=WARNINGS, files=["*.yuv"]),
    ],
)
