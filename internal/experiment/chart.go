package experiment

import "path/filepath"

// chart checks that the chart has a cluster to be installed in, and finds one of this machine beside the experiment's file.
func (v validation) chart(inline bool) {
	c := v.e.Application.Chart
	switch {
	case c == nil:
		return
	case v.e.Platform.Kind == "local":
		v.report("application", "write platform: {kind: kubernetes}", "a chart is installed in a cluster, and the platform is local")
	case !inline && v.doc.Has("application.chart"):
		v.report("application.chart", "write application.services: what the chart's Services are called", "the services of a chart are not given")
	}
	for i, n := range v.e.Factors.Replicas {
		if n > 1 && c.Replicas == "" {
			v.report("factors.replicas", "name the chart's value in application.chart.replicas", "level %d: the chart has no value for %d replicas", i, n)
		}
	}
	if c.Local() && c.Chart != "" && !filepath.IsAbs(c.Chart) {
		if path, err := filepath.Abs(filepath.Join(v.dir, c.Chart)); err == nil {
			c.Chart = path // the rendered file is read from another directory
		}
	}
}
