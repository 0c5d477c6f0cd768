# Tries an image before it is pushed: sh docker/smoke.sh IMAGE
set -eu
docker run --rm --network none --entrypoint sh "$1" -ceu \
  'bertscore-beam --version; python -m pip check; test -x /opt/apache/beam/boot
  ! env | grep -E "^(TOKENIZERS_PARALLELISM|RAYON_NUM_THREADS|OMP_NUM_THREADS)="'
# Three base images, each by digest.
test "$(docker inspect --format '{{json .Config.Labels}}' "$1" \
  | grep -oE '@sha256:[0-9a-f]{64}"' | wc -l)" -eq 3
