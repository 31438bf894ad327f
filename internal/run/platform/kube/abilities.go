package kube

import "github.com/tare-mesh/tare/internal/run/platform"

// Declare returns the platform with its abilities. It cannot impair networks.
func (p *Platform) Declare() platform.Platform {
	return platform.Platform{Deployer: p, CounterRefresh: p}
}

// declare returns the deployment with its abilities.
func (d *deployment) declare() *platform.Deployment {
	return &platform.Deployment{
		Running:        d,
		Verifier:       d,
		Watcher:        d,
		Warner:         d,
		LoadWorkers:    d,
		CounterRefresh: d,
		Prober:         d,
		TaskFaults:     d,
		Scaler:         d,
		Configurer:     d,
	}
}
