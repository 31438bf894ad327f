package kube

import (
	"context"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/run/platform"
	"github.com/tare-mesh/tare/kube/internal/cluster"
)

const (
	// simulatedName is the name of the pod of the simulated proxies.
	simulatedName = "simulated-proxies"
	simulatedPort = 9098
	// harnessContainer is the name of containers that are part of tare.
	harnessContainer = "tare"
)

// simulatedProxies is the pod of the simulated proxies, outside the mesh. Its work is in no sum of the trial.
type simulatedProxies struct {
	trial   *trial
	applier *applier
	pods    *trialPods
	monitor *podMonitor
	node    string
	forward *cluster.Forward // nil without any
	api     platform.SimulatedProxies
}

// count is the number of simulated proxies: none without a mesh.
func (sp *simulatedProxies) count() int {
	if !sp.trial.enrolment.enrolled {
		return 0
	}
	return sp.trial.spec.Treatment.Levels.BackgroundProxies
}

// start creates the pod, once the application is ready: a control plane that limits new streams has then configured its sidecars.
func (sp *simulatedProxies) start(ctx context.Context) error {
	if sp.count() == 0 {
		return nil
	}
	if err := sp.trial.spec.Mesh.CanSimulate(mesh.OnKubernetes); err != nil {
		return fmt.Errorf("simulated proxies: %w", err)
	}
	if err := sp.applier.apply(ctx, sp.pod()); err != nil {
		return err
	}
	return sp.applier.wait(ctx, cluster.Ref{Kind: cluster.KindPod, Namespace: sp.trial.namespace, Name: simulatedName})
}

// Memory of a simulated proxy: of its stream, and of the names that it knows of each service.
const (
	simulatedMemory  = 256 << 10 // bytes
	simulatedService = 512       // bytes
)

// pod is the pod of all of them.
func (sp *simulatedProxies) pod() *corev1.Pod {
	m := manifests{sp.trial}
	memory := sp.count() * (simulatedMemory + simulatedService*sp.trial.spec.Treatment.Levels.BackgroundServices)
	c := m.container(harnessContainer, app.Size(memory), platform.SimulatedArgs("127.0.0.1:"+strconv.Itoa(simulatedPort), tokenDir+"/"+tokenKey, sp.count(), sp.trial.enrolment.Simulated)...)
	c.VolumeMounts = append(c.VolumeMounts, tokenMount)
	spec := restrictedPod(c)
	spec.Volumes = append(spec.Volumes, tokenVolume())
	spec.RestartPolicy = corev1.RestartPolicyNever
	m.placeAway(&spec)
	pod := &corev1.Pod{ObjectMeta: sp.trial.meta(simulatedName), Spec: spec}
	mark(&pod.ObjectMeta, sp.trial.enrolment.Exempt)
	return pod
}

// isSimulated reports whether a pod has the simulated proxies.
func (t *trial) isSimulated(pod *corev1.Pod) bool { return t.owns(pod) && pod.Name == simulatedName }

// connect waits until each simulated proxy has a configuration.
func (sp *simulatedProxies) connect(ctx context.Context) error {
	if sp.count() == 0 || sp.trial.cluster.DryRun() {
		return nil
	}
	for _, pod := range sp.pods.all() {
		if sp.trial.isSimulated(pod) {
			sp.node = pod.Spec.NodeName
		}
	}
	sp.forward = sp.trial.cluster.Forward(sp.trial.namespace, simulatedName, simulatedPort)
	sp.api = platform.SimulatedProxies{URL: "http://" + simulatedName, Token: sp.trial.token, Dial: sp.forward.DialContext,
		Log: "the log of pod " + simulatedName + " in the trial's provenance directory"}
	return sp.api.Await(ctx, sp.count(), sp.trial.spec.Treatment.Levels.BackgroundServices, sp.monitor.Err, sp.trial.options.Report)
}

// Received implements [platform.Background].
func (sp *simulatedProxies) Received(ctx context.Context) (*platform.Received, error) {
	if sp.forward == nil {
		return nil, nil
	}
	r, err := sp.api.Received(ctx)
	if err != nil {
		return nil, err
	}
	if r.Ahead, _, err = sp.trial.clockOf(ctx, sp.node, sp.api.Clock); err != nil {
		return nil, fmt.Errorf("clock of the simulated proxies: %w", err)
	}
	return r, nil
}

// close closes the connection.
func (sp *simulatedProxies) close() {
	if sp.forward != nil {
		sp.forward.Close()
	}
}
