# The controller's image: the binary, the C library that it is linked to, certificates and time zones. No shell, no user
# but 65532. The entry point has no subcommand, so that manifests without command and arguments run the controller.
#
#   docker build -t fleetwright:0.1.0 .
#
# Without arguments it builds what production needs: the cloud `aws` and traces, and no lab. The fake cloud of deploy/fake-cloud/ needs the lab:
#
#   docker build --build-arg FEATURES=lab -t fleetwright:0.1.0 .
#
# amd64 and arm64 are built natively, each on its own platform; .github/workflows/release.yml joins them and adds SBOM, provenance
# and signature.

FROM rust:1.95.0-bookworm AS build
# Features of the operator, separated by commas: aws, lab, otel.
ARG FEATURES="aws,otel"
# What `version` and the log call the commit.
ARG REVISION="unknown"
WORKDIR /src
# The image has this toolchain; rust-toolchain.toml would add the components of development.
ENV RUSTUP_TOOLCHAIN=1.95.0
# Names of functions are a third of the binary. Panics say their place in the source without them.
ENV CARGO_PROFILE_DIST_STRIP=symbols
COPY . .
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/src/target \
    FLEETWRIGHT_COMMIT="$(printf %.7s "$REVISION")" cargo build --profile dist --locked -p fleetwright-operator --no-default-features --features "$FEATURES" \
    && cp target/dist/fleetwright /fleetwright

FROM debian:bookworm-slim AS root
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates tzdata libgcc-s1 \
    && rm -rf /var/lib/apt/lists/*
COPY --from=build /fleetwright /root-of-image/usr/bin/fleetwright
# What the loader asks for, at the paths where it looks; ldd names the loader itself on a line without an arrow.
RUN set -eu; cd /root-of-image; \
    ldd usr/bin/fleetwright > /needed; \
    awk '$2 == "=>" && $3 ~ /^\// { print $3 } $1 ~ /^\// { print $1 }' /needed \
      | while read -r file; do mkdir -p ".$(dirname "$file")"; cp --dereference "$file" ".$file"; done; \
    mkdir -p etc/ssl/certs usr/share tmp; chmod 1777 tmp; \
    cp /etc/ssl/certs/ca-certificates.crt etc/ssl/certs/; \
    cp -r /usr/share/zoneinfo usr/share/; \
    echo 'nonroot:x:65532:65532:nonroot:/tmp:/sbin/nologin' > etc/passwd; \
    echo 'nonroot:x:65532:' > etc/group; \
    echo 'hosts: files dns' > etc/nsswitch.conf

FROM scratch
# What the release pipeline knows: version, commit, and the repository's address.
ARG VERSION="0.1.0"
ARG REVISION=""
ARG SOURCE=""
COPY --from=root /root-of-image/ /
LABEL org.opencontainers.image.title="fleetwright" \
      org.opencontainers.image.version="$VERSION" \
      org.opencontainers.image.revision="$REVISION" \
      org.opencontainers.image.source="$SOURCE" \
      org.opencontainers.image.description="A Karpenter-compatible Kubernetes node autoscaler" \
      org.opencontainers.image.licenses="Apache-2.0"
USER 65532:65532
EXPOSE 8080 8081
ENTRYPOINT ["/usr/bin/fleetwright"]
