package main

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// newTracer exports traces over OTLP/HTTP if the standard OTEL_* variables
// request it, and else returns nil. The exporter and the SDK read the other
// OTEL_* variables (headers, sampler, resource) themselves.
func (c serveCommand) newTracer(ctx context.Context, log *slog.Logger) (tp trace.TracerProvider, stop func(context.Context) error, err error) {
	none := func(context.Context) error { return nil }
	exporter := c.env("OTEL_TRACES_EXPORTER")
	addressed := c.env("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || c.env("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != ""
	switch {
	case strings.EqualFold(c.env("OTEL_SDK_DISABLED"), "true"), exporter == "none", exporter == "" && !addressed:
		return nil, none, nil
	case exporter != "" && exporter != "otlp":
		return nil, none, usage(fmt.Sprintf("OTEL_TRACES_EXPORTER is %q", exporter), "set it to otlp or none")
	}
	exp, err := otlptracehttp.New(ctx)
	if err != nil {
		return nil, none, usage("create the trace exporter: "+err.Error(), "check the OTEL_EXPORTER_OTLP_* variables")
	}
	// The SDK reports export failures to a global handler, which by default
	// prints to standard error.
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Warn("exporting traces failed", "error", err) }))
	p := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exp))
	return p, p.Shutdown, nil
}
