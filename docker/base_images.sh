# Prints the base images by digest, as build arguments: the same bytes for all builds that take them.
# docker/cloudbuild.yaml and .github/workflows/image.yml run it.
set -eu
for argument in $(sed -n 's/^ARG \(.*_IMAGE=.*\)/\1/p' docker/Dockerfile); do
  docker pull --quiet "${argument#*=}" > /dev/null
  digest=$(docker inspect --format '{{index .RepoDigests 0}}' "${argument#*=}")
  echo "--build-arg=${argument%%@*}@${digest#*@}"
done
