# One image for the fusion center and the sites: Flower and consilience. Data are mounted, never copied in.
FROM python:3.12-slim
WORKDIR /app
COPY . .
RUN pip install --no-cache-dir -c constraints.txt -e '.[report,parquet]' && useradd --create-home consilience \
    && mkdir -p /results /state && chown consilience /results /state
USER consilience
ENV FLWR_TELEMETRY_ENABLED=0 FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION=1
WORKDIR /results
