"""Which argument of a library call names the file or folder that it is about."""

from __future__ import annotations

import libcst as cst

from ddpify.understanding.facts import Effect
from ddpify.understanding.libraries.actions import PATH_METHODS
from ddpify.understanding.syntax import argument

_FIRST, _URI = ("path", 0), ("uri", 0)
WRITTEN = {
    "torch.save": ("f", 1), "torch.jit.save": ("f", 1), "builtins.open": ("file", 0),
    "io.open": ("file", 0), "gzip.open": ("filename", 0), "numpy.save": ("file", 0),
    "numpy.savez": ("file", 0), "numpy.savez_compressed": ("file", 0),
    "numpy.savetxt": ("fname", 0), "joblib.dump": ("filename", 1), "cv2.imwrite": ("filename", 0),
    "matplotlib.pyplot.savefig": ("fname", 0), "torchvision.utils.save_image": ("fp", 1),
    "shutil.copy": ("dst", 1), "shutil.copyfile": ("dst", 1), "shutil.copy2": ("dst", 1),
    "shutil.copytree": ("dst", 1), "shutil.move": ("dst", 1), "os.rename": ("dst", 1),
    "os.replace": ("dst", 1), "shutil.rmtree": _FIRST, "os.remove": _FIRST, "os.unlink": _FIRST,
    "safetensors.torch.save_file": ("filename", 1), "to_csv": ("path_or_buf", 0),
    "to_pickle": _FIRST, "to_json": ("path_or_buf", 0), "os.makedirs": ("name", 0),
    "os.mkdir": _FIRST, "savefig": ("fname", 0), "h5py.File": ("name", 0),
    "zipfile.ZipFile": ("file", 0), "tarfile.open": ("name", 0), "codecs.open": ("filename", 0),
    "bz2.open": ("filename", 0), "lzma.open": ("filename", 0), "gzip.GzipFile": ("filename", 0),
    "to_parquet": _FIRST, "tofile": ("fid", 0), "to_hdf": ("path_or_buf", 0), "to_feather": _FIRST,
    "scipy.sparse.save_npz": ("file", 0), "scipy.io.savemat": ("file_name", 0),
    "scipy.io.wavfile.write": ("filename", 0), "scipy.misc.imsave": ("name", 0),
    "imageio.imwrite": _URI, "imageio.imsave": _URI, "imageio.mimsave": _URI,
    "imageio.mimwrite": _URI, "imageio.v2.imwrite": _URI, "imageio.v2.mimsave": _URI,
    "imageio.v2.mimwrite": _URI, "imageio.v3.imwrite": _URI, "torchaudio.save": _URI,
    "matplotlib.pyplot.imsave": ("fname", 0), "matplotlib.image.imsave": ("fname", 0),
    "skimage.io.imsave": ("fname", 0), "tifffile.imwrite": ("file", 0),
    "nibabel.save": ("filename", 1), "SimpleITK.WriteImage": ("fileName", 1),
    "soundfile.write": ("file", 0), "librosa.output.write_wav": _FIRST,
    "torchvision.io.write_png": ("filename", 1), "torchvision.io.write_jpeg": ("filename", 1),
    "torchvision.io.write_video": ("filename", 0), "torchvision.io.write_file": ("filename", 0),
    "safetensors.torch.save_model": ("filename", 1), "torch.onnx.export": ("f", 2),
}  # fmt: skip
TREES = frozenset({"shutil.rmtree", "shutil.move", "os.rename", "os.replace"})  # of whole folders
READ = {
    "torch.load": ("f", 0), "torch.jit.load": ("f", 0), "builtins.open": ("file", 0),
    "io.open": ("file", 0), "gzip.open": ("filename", 0), "numpy.load": ("file", 0),
    "numpy.loadtxt": ("fname", 0), "numpy.genfromtxt": ("fname", 0), "joblib.load": ("filename", 0),
    "pandas.read_csv": ("filepath_or_buffer", 0), "pandas.read_pickle": ("filepath_or_buffer", 0),
    "pandas.read_json": ("path_or_buf", 0), "PIL.Image.open": ("fp", 0),
    "cv2.imread": ("filename", 0), "safetensors.torch.load_file": ("filename", 0),
    "h5py.File": ("name", 0), "zipfile.ZipFile": ("file", 0), "tarfile.open": ("name", 0),
    "codecs.open": ("filename", 0), "bz2.open": ("filename", 0), "lzma.open": ("filename", 0),
    "pandas.read_hdf": ("path_or_buf", 0), "pandas.read_parquet": _FIRST,
    "pandas.read_excel": ("io", 0), "scipy.sparse.load_npz": ("file", 0),
    "pandas.read_table": ("filepath_or_buffer", 0), "pandas.read_feather": _FIRST,
    "scipy.io.loadmat": ("file_name", 0), "scipy.io.wavfile.read": ("filename", 0),
    "imageio.imread": _URI, "imageio.v2.imread": _URI, "imageio.v3.imread": _URI,
    "torchaudio.load": _URI, "matplotlib.pyplot.imread": ("fname", 0),
    "matplotlib.image.imread": ("fname", 0), "skimage.io.imread": ("fname", 0),
    "tifffile.imread": ("files", 0), "nibabel.load": ("filename", 0),
    "SimpleITK.ReadImage": ("fileName", 0), "soundfile.read": ("file", 0), "librosa.load": _FIRST,
    "torchvision.io.read_image": _FIRST, "torchvision.io.read_file": _FIRST,
    "torchvision.io.read_video": ("filename", 0), "numpy.fromfile": ("file", 0),
    "numpy.memmap": ("filename", 0), "safetensors.torch.load_model": ("filename", 1),
}  # fmt: skip
ASKED = {
    "os.path.exists": _FIRST, "os.path.isfile": _FIRST, "os.path.isdir": ("s", 0),
    "os.path.lexists": _FIRST, "os.listdir": _FIRST, "os.scandir": _FIRST,
    "os.path.getsize": ("filename", 0), "os.path.getmtime": ("filename", 0),
    "glob.glob": ("pathname", 0), "glob.iglob": ("pathname", 0),
}  # fmt: skip
ASKED_OF_PATHS = frozenset("exists is_file is_dir glob rglob iterdir stat".split())
READ_FROM_PATHS = frozenset("read_text read_bytes".split())
_OF_PATHS = frozenset("mkdir open write_text write_bytes".split()) | PATH_METHODS


def named_by(call: cst.Call, place: tuple[str, int] | None) -> cst.BaseExpression | None:
    """What a call gets for the argument ``(keyword, position)``."""
    given = argument(call, *place) if place is not None else None
    return given.value if given is not None else None


def path_of(effect: Effect) -> cst.BaseExpression | None:
    """The expression that says which file or folder an effect makes, changes or removes."""
    call = effect.site.node
    if not isinstance(call, cst.Call):
        return None
    if effect.kind == "writer":
        return named_by(call, ("log_dir", 0))
    if effect.name in _OF_PATHS:
        return call.func.value if isinstance(call.func, cst.Attribute) else None
    return named_by(call, WRITTEN.get(effect.name))
