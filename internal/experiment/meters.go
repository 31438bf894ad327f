package experiment

import "net/url"

// Prometheus is the meter that needs an address.
const Prometheus = "prometheus"

// meter checks where the figures of a cluster are to come from.
func (v validation) meter() {
	p := v.e.Platform
	if p.Kind == "local" {
		for _, field := range []string{"meter", "prometheus"} {
			if v.doc.Has("platform." + field) {
				v.report("platform."+field, "leave it out", "it is of clusters, and the platform is local")
			}
		}
		return
	}
	if p.Meter != "" {
		v.oneOf("platform.meter", "meter", p.Meter, v.known.Meters)
	}
	switch {
	case p.Meter == Prometheus && p.Prometheus == "":
		v.report("platform.meter", "write prometheus: http://localhost:9090 beside it", "the address of Prometheus is not given")
	case p.Meter != Prometheus && p.Prometheus != "":
		v.report("platform.prometheus", "write meter: prometheus beside it, or leave it out", "Prometheus is not the meter")
	case p.Prometheus != "":
		if u, err := url.Parse(p.Prometheus); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			v.report("platform.prometheus", "write it as http://localhost:9090", "it is no http or https URL")
		}
	}
}
