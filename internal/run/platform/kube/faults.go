package kube

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/run/platform"
)

// adminTimeout bounds one question to a service's REST interface; maxAnswer its answer, bytes.
const (
	adminTimeout = 15 * time.Second
	maxAnswer    = 1 << 20
)

// Faults are the kinds that can be had on a cluster: those that change what a service does, and those that end pods.
func Faults() []string {
	return []string{"latency", "errors", "rate-limit", "cpu-burn", "memory", "kill", "terminate", "restart", "scale"}
}

// Why the others cannot.
const (
	noSignals = "the API server sends no signal to a process"
	noNetwork = "what is between pods is the nodes' and the network plug-in's"
	noPart    = "a container does not end by itself: its pod is deleted, the application with it"
)

// CanInject says whether a fault can be had on a cluster: the error wraps [errors.ErrUnsupported], says why not, and has a hint.
func CanInject(f experiment.Fault) error {
	kind, _ := experiment.FaultKindOf(f.Kind)
	why := ""
	switch plane := cmp.Or(f.Target.Plane, string(metric.App)); {
	case kind.Network:
		why = noNetwork
	case !slices.Contains(Faults(), f.Kind):
		why = noSignals
	case plane != string(metric.App):
		why = noPart
	}
	if why == "" {
		return nil
	}
	return &Error{fmt.Errorf("%s: %w on Kubernetes: %s", f.Kind, errors.ErrUnsupported, why),
		"what can be had there, of the application: " + strings.Join(Faults(), ", ")}
}

// Victims implements [platform.TaskFaults]: the services' applications, in the order of their numbers.
func (d *deployment) Victims() []platform.Victim {
	var all []platform.Victim
	for _, s := range d.played() {
		if s.Program == app.Adder {
			continue
		}
		d.of(s.Name) // each has its seat then
		d.mu.Lock()
		seats := len(d.seats[s.Name])
		d.mu.Unlock()
		for i := range seats {
			name, pod := numbered(s.Name, i), d.sitting(s.Name, i)
			all = append(all, platform.Victim{ID: name + "/" + appContainer, Pod: name, Service: s.Name, Replica: i, Plane: metric.App,
				Up: pod != nil && isReady(pod)})
		}
	}
	return all
}

// of are the pods of a service, each of which has a number then.
func (d *deployment) of(service string) []*corev1.Pod {
	if d.pods == nil {
		return nil
	}
	pods := slices.DeleteFunc(d.own(), func(pod *corev1.Pod) bool { return d.serviceOf(pod) != service })
	for _, pod := range pods {
		d.podName(pod)
	}
	return pods
}

// Configure implements [platform.Configurer], through the API server, beside any mesh.
func (d *deployment) Configure(ctx context.Context, id string, patch []byte) (undo []byte, err error) {
	fail := func(err error) ([]byte, error) { return nil, fmt.Errorf("change %s: %w", id, err) }
	pod, err := d.find(id)
	if err != nil {
		return fail(err)
	}
	now, err := d.ask(ctx, pod, http.MethodGet, "config", nil)
	if err != nil {
		return fail(err)
	}
	if undo, err = platform.Reverse(patch, now); err != nil {
		return fail(err)
	}
	if _, err := d.ask(ctx, pod, http.MethodPatch, "config", patch); err != nil {
		return fail(err)
	}
	return undo, nil
}

var (
	errNoService = errors.New("there is no such service")
	errEnded     = errors.New("it has been ended")
)

// find is the pod of a victim; [errEnded] where it has none at the moment.
func (d *deployment) find(id string) (*corev1.Pod, error) {
	name, is := strings.CutSuffix(id, "/"+appContainer)
	service, number, ok := d.seatOf(name)
	if !is || !ok {
		return nil, errNoService
	}
	pod := d.sitting(service, number)
	if pod == nil {
		return nil, errEnded
	}
	return pod, nil
}

// ask asks a service's REST interface, with the token of the trial.
func (d *deployment) ask(ctx context.Context, pod *corev1.Pod, method, path string, body []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	forward := d.cluster.Forward(pod.Namespace, pod.Name, adminPort)
	defer forward.Close()
	r, err := http.NewRequestWithContext(ctx, method, "http://"+pod.Name+"/"+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", "Bearer "+d.token)
	if body != nil {
		r.Header.Set("Content-Type", "application/merge-patch+json")
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: forward.DialContext}}
	resp, err := client.Do(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %.300s", resp.Status, bytes.TrimSpace(answer))
	}
	return answer, nil
}
