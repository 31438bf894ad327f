package mesh

// Background are requests about services that no request of the load calls, named background-1 and so on. They are
// templates over [BackgroundContext].
type Background struct {
	// Services adds them, before the first sidecar starts.
	Services Request `yaml:"services" json:"services"`
	// Change gives one of them another endpoint.
	Change Request `yaml:"change" json:"change"`
	// Gauge of a sidecar is at least the number of services in its configuration.
	Gauge string `yaml:"gauge" json:"gauge" required:"name a gauge of the sidecar that counts services"`
}

// BackgroundContext is the data of the templates of [Background].
type BackgroundContext struct {
	Services int // in all
	Number   int // of a change, from 1: the services change in turn
	Control  map[string]ControlContext
	Secrets
}
