package kube

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/tare-mesh/tare/internal/app"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/platform"
)

// adminTimeout bounds one question to a service's REST interface; maxAnswer its answer, bytes.
const (
	adminTimeout = 15 * time.Second
	maxAnswer    = 1 << 20
)

// Faults are the kinds that can be had on a cluster: those that change what a service does.
func Faults() []string { return []string{"latency", "errors", "rate-limit", "cpu-burn", "memory"} }

// Victims implements [platform.Faulty]: the services' applications.
func (d *deployment) Victims() []platform.Victim {
	var all []platform.Victim
	for _, s := range d.spec.Topology.Services {
		if s.Program == app.Adder {
			continue
		}
		for _, pod := range d.of(s.Name) {
			name := d.podName(pod)
			all = append(all, platform.Victim{ID: name + "/" + appContainer, Pod: name, Service: s.Name, Plane: metric.App, Up: isReady(pod)})
		}
	}
	slices.SortStableFunc(all, func(a, b platform.Victim) int {
		if a.Service != b.Service {
			return 0 // in the topology's order
		}
		return strings.Compare(fmt.Sprintf("%10s", a.Pod), fmt.Sprintf("%10s", b.Pod))
	})
	replicas := map[string]int{}
	for i := range all {
		all[i].Replica = replicas[all[i].Service]
		replicas[all[i].Service]++
	}
	return all
}

// of are the pods of a service.
func (d *deployment) of(service string) []*corev1.Pod {
	if d.pods == nil {
		return nil
	}
	return slices.DeleteFunc(d.own(), func(pod *corev1.Pod) bool { return pod.Labels[labelService] != service })
}

// End implements [platform.Faulty].
func (d *deployment) End(_ context.Context, id string, _ time.Duration) error {
	return unsupported("end " + id)
}

// Freeze implements [platform.Faulty].
func (d *deployment) Freeze(_ context.Context, id string, _ bool) error {
	return unsupported("freeze " + id)
}

// Restart implements [platform.Faulty].
func (d *deployment) Restart(_ context.Context, id string) error {
	return unsupported("restart " + id)
}

func unsupported(what string) error {
	return fmt.Errorf("%s: %w on Kubernetes", what, errors.ErrUnsupported)
}

// Configure implements [platform.Configurable], through the API server, beside any mesh.
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

// find is the pod of a victim.
func (d *deployment) find(id string) (*corev1.Pod, error) {
	for _, pod := range d.own() {
		if d.podName(pod)+"/"+appContainer == id {
			return pod, nil
		}
	}
	return nil, errors.New("there is no such service")
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
