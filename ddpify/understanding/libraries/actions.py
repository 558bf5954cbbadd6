"""Names of library calls that act on the world outside, and of accelerators."""

from __future__ import annotations

SAVES = ("torch.save",)
FOLDERS = frozenset({"os.makedirs", "os.mkdir"})
# These give back the text where no stream is given.
GIVE_TEXT = frozenset(
    f"yaml.{name}" for name in "dump dump_all safe_dump safe_dump_all serialize emit".split()
)
WRITES = GIVE_TEXT | frozenset(
    {
        "numpy.save", "numpy.savez", "numpy.savez_compressed", "numpy.savetxt", "pickle.dump",
        "json.dump", "joblib.dump", "cv2.imwrite", "imageio.imwrite", "imageio.imsave",
        "imageio.mimsave", "matplotlib.pyplot.savefig", "matplotlib.pyplot.imsave",
        "torchvision.utils.save_image", "torchvision.io.write_png", "scipy.io.savemat",
        "scipy.misc.imsave", "scipy.io.wavfile.write", "soundfile.write", "torchaudio.save",
        "shutil.copy", "shutil.copyfile", "shutil.copy2", "shutil.copytree", "shutil.move",
        "shutil.rmtree", "os.remove", "os.unlink", "os.rename", "os.replace", "os.rmdir",
        "os.removedirs", "os.symlink", "os.fsync", "torch.onnx.export", "torch.jit.save",
        "safetensors.torch.save_file", "safetensors.torch.save_model", "dill.dump",
        "torchvision.io.write_jpeg", "torchvision.io.write_video", "torchvision.io.write_file",
        "imageio.mimwrite", "imageio.v2.imwrite", "imageio.v2.mimsave", "imageio.v2.mimwrite",
        "imageio.v3.imwrite", "skimage.io.imsave", "tifffile.imwrite", "nibabel.save",
        "SimpleITK.WriteImage", "matplotlib.image.imsave", "scipy.sparse.save_npz", "toml.dump",
        "pickle.Pickler", "librosa.output.write_wav", "os.truncate", "shelve.open",
        "sqlite3.connect",
    }
)  # fmt: skip
# What they give is a file that the script writes into: open() and its like, whose file may be the
# null device, and what puts more than one thing into a file.
OPENERS = frozenset(
    {
        "builtins.open", "io.open", "codecs.open", "gzip.open", "gzip.GzipFile", "bz2.open",
        "bz2.BZ2File", "lzma.open", "lzma.LZMAFile",
    }
)  # fmt: skip
CONTAINERS = frozenset(
    {
        "h5py.File", "zipfile.ZipFile", "tarfile.open", "pandas.HDFStore", "netCDF4.Dataset",
        "tables.open_file",
    }
)  # fmt: skip
FILLED = frozenset({"pandas.ExcelWriter", "cv2.VideoWriter", "imageio.get_writer",
                    "imageio.v2.get_writer"})  # fmt: skip
LOGFILES = frozenset(
    {
        "logging.FileHandler", "logging.handlers.RotatingFileHandler",
        "logging.handlers.TimedRotatingFileHandler", "logging.handlers.WatchedFileHandler",
    }
)  # fmt: skip
COMMANDS = frozenset({"os.system", "subprocess.run", "subprocess.call", "subprocess.check_call"})
WRITERS = frozenset(
    {
        "torch.utils.tensorboard.SummaryWriter", "tensorboardX.SummaryWriter",
        "torch.utils.tensorboard.writer.SummaryWriter", "visdom.Visdom",
        "tensorflow.summary.FileWriter", "tensorflow.compat.v1.summary.FileWriter",
        "tensorflow.summary.create_file_writer", "tensorboard_logger.Logger",
        "comet_ml.Experiment", "comet_ml.OfflineExperiment", "comet_ml.start",
        "neptune.init", "neptune.init_run", "neptune.new.init", "clearml.Task.init", "aim.Run",
        "mlflow.start_run", "swanlab.init", "dvclive.Live",
    }
)  # fmt: skip
# Libraries that log through functions, to a run that the process has open.
LOGGING = ("mlflow.", "swanlab.", "tensorboard_logger.", "neptune.")
WRITING_METHODS = frozenset(
    "savefig to_csv to_pickle to_json to_excel write_text write_bytes save_pretrained"
    " push_to_hub save_weights imsave to_hdf to_parquet to_feather to_stata"
    " export_chrome_trace export_stacks export_memory_timeline".split()
)
PATH_METHODS = frozenset("unlink rename replace touch rmdir symlink_to".split())
# Libraries whose objects write themselves into a file.
SAVED_BY_METHODS = ("PIL.", "matplotlib.", "openpyxl.", "docx.", "pptx.", "xml.etree.")
DOWNLOADS = frozenset(
    {
        "urllib.request.urlretrieve", "urllib.request.urlopen",
        "torch.hub.load_state_dict_from_url",
        "torch.hub.download_url_to_file", "torch.hub.load", "torch.utils.model_zoo.load_url",
        "requests.get", "wget.download", "gdown.download", "tarfile.open", "zipfile.ZipFile",
        "six.moves.urllib.request.urlopen", "six.moves.urllib.request.urlretrieve",
        "torchvision.datasets.utils.download_url", "nltk.download",
        "torchvision.datasets.utils.download_and_extract_archive", "shutil.unpack_archive",
        "torchtext.vocab.GloVe", "torchtext.vocab.FastText", "torchtext.vocab.CharNGram",
        "torchtext.utils.download_from_url", "gensim.downloader.load", "spacy.cli.download",
        "kagglehub.dataset_download", "gdown.download_folder", "gdown.cached_download",
        "clip.load", "whisper.load_model",
    }
)  # fmt: skip
# Data sets that are fetched, and most of them written in another form, where they are not there.
FETCHED = ("torch_geometric.datasets.", "sklearn.datasets.fetch_", "dgl.data.", "ogb.")
ACCELERATORS = ("cuda", "mps", "xpu", "npu", "hpu")
