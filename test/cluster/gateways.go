package cluster

import (
	"context"
	"io"
	"maps"
	"strings"

	"github.com/tare-mesh/tare/internal/base/fetch"
	"github.com/tare-mesh/tare/test/cluster/internal/parts"
)

// BuildGateway sees to it that the cache holds a gateway's images, charts and CRDs, and returns where they are. Its
// controller is its project's own. Its proxy is the Envoy that tare uses elsewhere.
func BuildGateway(ctx context.Context, l Layout, source parts.Gateway, log io.Writer) (parts.BuiltGateway, error) {
	report := newProgress(log)
	envoy, err := fetch.Envoy().Find(ctx, fetch.Options{Log: func(line string) { report("%s", line) }})
	if err != nil {
		return parts.BuiltGateway{}, err
	}
	built, err := source.Cached(l.Root, envoy.SHA256)
	if err != nil {
		return built, err
	}
	what := source.Name() + " " + source.Version() + " (about 4 minutes of processor time)"
	return built, buildOnce(ctx, l, built.Built, what, log, func() error { return source.Build(ctx, built, envoy.Path, log) })
}

// AddGateway loads a gateway's images into a cluster that is up, so that it can be installed there, and records that in
// the layout. It builds images that the cache lacks.
func AddGateway(ctx context.Context, l Layout, source parts.Gateway, log io.Writer) (Layout, error) {
	built, err := BuildGateway(ctx, l, source, log)
	if err != nil || l.Gateways[source.Name()] == built.Charts() {
		return l, err
	}
	if _, err := l.LoadImage(ctx, built.Images()); err != nil {
		return l, err
	}
	newProgress(log)("images of %s %s imported", source.Name(), source.Version())
	all := maps.Clone(l.Gateways)
	if all == nil {
		all = map[string]string{}
	}
	all[source.Name()] = built.Charts()
	l.Gateways = all
	return l, l.save()
}

// gatewayCharts are variables with the directories of the gateways' charts, such as TARE_TEST_CONTOUR_CHARTS.
func (l Layout) gatewayCharts() (all []string) {
	for name, dir := range l.Gateways {
		all = append(all, "TARE_TEST_"+strings.ToUpper(strings.ReplaceAll(name, "-", "_"))+"_CHARTS="+dir)
	}
	return all
}
