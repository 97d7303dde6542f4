# The server and the tool on Debian slim. `--target cuda`: with the CUDA backend, on machines with NVIDIA's container runtime;
# the runtime is linked statically and the driver is the host's, so that the image holds no CUDA library either way.
# `deploy/image.sh` (make image) builds it with or without a container engine.
ARG BASE=debian:bookworm-slim

FROM ${BASE} AS build
WORKDIR /src
COPY deploy/install-dependencies.sh deploy/
RUN deploy/install-dependencies.sh build
COPY . .
RUN cmake --preset package --log-level=WARNING \
 && cmake --build --preset package --parallel \
 && strip build/package/bin/phasord build/package/bin/phasor

FROM build AS build-cuda
RUN cmake --preset package --log-level=WARNING -DPHASOR_CUDA=ON \
 && cmake --build --preset package --parallel \
 && strip build/package/bin/phasord build/package/bin/phasor

FROM ${BASE} AS runtime
ARG VERSION=0.0.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="Phasor" \
      org.opencontainers.image.description="Exact tables and tensors of position encodings and attention biases, over gRPC" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.base.name="debian:bookworm-slim"
RUN apt-get update -qq \
 && DEBIAN_FRONTEND=noninteractive apt-get install -qq --yes --no-install-recommends \
      libgrpc++1.51 libhwy1 libisal2 libprometheus-cpp-pull1.0 libspdlog1.10 > /dev/null \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/cache/debconf/*-old /var/lib/dpkg/*-old /var/log/*
COPY LICENSE /usr/share/doc/phasor/copyright
ENV PHASOR_LISTEN=0.0.0.0:50051 \
    PHASOR_METRICS_LISTEN=0.0.0.0:9464
EXPOSE 50051 9464
# A number, so that an orchestrator can see that it is not root.
USER 65532:65532
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s --start-period=30s --retries=3 \
  CMD ["/usr/local/bin/phasor", "--server=127.0.0.1:50051", "health"]
ENTRYPOINT ["/usr/local/bin/phasord"]

FROM runtime AS cuda
# What the container runtime brings in from the host.
ENV NVIDIA_VISIBLE_DEVICES=all \
    NVIDIA_DRIVER_CAPABILITIES=compute
COPY --from=build-cuda /src/build/package/bin/phasord /src/build/package/bin/phasor /usr/local/bin/

FROM runtime
COPY --from=build /src/build/package/bin/phasord /src/build/package/bin/phasor /usr/local/bin/
