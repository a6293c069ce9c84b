# syntax=docker/dockerfile:1
FROM rust:1.95-slim-bookworm AS build
RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev && rm -rf /var/lib/apt/lists/*
WORKDIR /build
COPY . .
# What /version says: docker build --build-arg GIT_COMMIT=$(git rev-parse --short=12 HEAD) .
ARG GIT_COMMIT=
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/build/target \
    GIT_COMMIT="$GIT_COMMIT" cargo build --release --locked --bin doppel && cp target/release/doppel /doppel && mkdir /data

# No shell, no package manager; runs as an unprivileged user (65532).
FROM gcr.io/distroless/cc-debian12:nonroot
COPY --from=build /doppel /usr/local/bin/doppel
COPY --from=build --chown=65532:65532 /data /data
USER 65532:65532
WORKDIR /data
VOLUME ["/data"]
EXPOSE 8080
# Keys are needed to listen on more than loopback; see the compose file for how they are given.
ENV DOPPEL_STORE__DATA=/data
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 \
    CMD ["/usr/local/bin/doppel", "healthcheck"]
ENTRYPOINT ["/usr/local/bin/doppel"]
CMD ["serve"]
