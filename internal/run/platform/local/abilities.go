package local

import (
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/run/platform"
)

// Declare returns the platform with its abilities.
func (p *Platform) Declare() platform.Platform {
	return platform.Platform{Deployer: p, Faults: platform.Faults{Abilities: experiment.Abilities(), CanImpair: canImpair}}
}

// declare returns the deployment with its abilities. Each reading of a process's
// counters is current, the load shares this machine's clock, and there is nothing
// to warn about. Those fields stay nil.
func (d *deployment) declare() *platform.Deployment {
	changer := &changer{layout: d.layout, workspace: d.workspace, control: d.control, proxies: d.proxies, verifier: d.verifier}
	all := &platform.Deployment{
		Running:          d,
		Host:             d.layout.spec.Host(d.layout.spec.Entry()),
		Verify:           d.verifier.Verify,
		Broken:           d.processes.Err,
		Probe:            prober{d.layout.spec.CPUs}.Probe,
		CheckConnections: d.layout.checkConnections,
		MeshCounters:     d.proxies.MeshCounters,
		RequestCounts:    (&requestCounters{layout: d.layout, processes: d.processes, sockets: d.sockets}).RequestCounts,
		TaskFaults:       d.faults,
		Ended:            d.faults.Ended,
		Configurer:       d.processes,
		NetworkFaults:    d.network,
		Changer:          changer,
		Serial:           changer.Serial,
		Moments:          d.control,
		StopAndStart:     (&starter{layout: d.layout, processes: d.processes, faults: d.faults, changer: changer}).StopAndStart,
	}
	if d.layout.proxied() && d.layout.spec.Mesh.Local.Background != nil {
		all.Background = d.simulated
	}
	return all
}
