package kube

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/proc"
	"github.com/tare-mesh/tare/internal/base/routine"
	"github.com/tare-mesh/tare/internal/base/wait"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/load/record"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/run/platform"
	"github.com/tare-mesh/tare/kube/internal/cluster"
)

// noSignals is why tasks cannot be suspended.
const noSignals = "the API server sends no signals to processes"

// Faults declares the supported faults. They change a service's configuration or end pods.
func Faults() platform.Faults {
	return platform.Faults{
		Abilities: []experiment.Ability{experiment.EndTasks, experiment.ScaleServices, experiment.ChangeServices},
		Lacks: map[experiment.Ability]string{
			experiment.SuspendTasks:   noSignals,
			experiment.ImpairNetworks: "the network between pods belongs to the nodes and the CNI plug-in",
		},
		AppOnly: "a container does not end alone: its pod is deleted, with the application",
	}
}

// faults ends pods of the trial and waits for their replacements.
type faults struct {
	*trial
	pods    *trialPods
	monitor *podMonitor
}

// Victims implements [platform.TaskFaults]: the applications of the services, in the order of their slots.
func (f *faults) Victims() []platform.Victim {
	var all []platform.Victim
	for _, s := range f.agentServices() {
		f.pods.ofService(s.Name) // gives each pod a slot
		for i := range f.pods.slots.count(s.Name) {
			name, pod := slotName(s.Name, i), f.pods.current(s.Name, i)
			all = append(all, platform.Victim{ID: name + "/" + appContainer, Pod: name, Service: s.Name, Replica: i, Plane: metric.App,
				Up: pod != nil && cluster.PodReady(pod)})
		}
	}
	return all
}

// End implements [platform.TaskFaults]: it deletes the pod, and the Deployment creates another at once.
func (f *faults) End(ctx context.Context, id string, grace time.Duration) error {
	pod, err := f.pods.find(id)
	if errors.Is(err, errEnded) {
		return nil
	}
	if err != nil {
		return err
	}
	return f.deletePod(ctx, pod, grace)
}

func (f *faults) deletePod(ctx context.Context, pod *corev1.Pod, grace time.Duration) error {
	f.release(pod, false)
	seconds := int64(math.Ceil(grace.Seconds()))
	err := f.cluster.Retry(ctx, "delete pod "+pod.Name, func(ctx context.Context) error {
		err := f.cluster.Typed().CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name,
			metav1.DeleteOptions{GracePeriodSeconds: &seconds, Preconditions: metav1.NewUIDPreconditions(string(pod.UID))})
		if cluster.IsNotFound(err) {
			return nil
		}
		return err
	})
	if err != nil {
		return err
	}
	return f.pods.awaitDeleted(ctx, pod, grace)
}

// release ends the monitoring of a pod that a fault ends, and vacates its slot.
func (f *faults) release(pod *corev1.Pod, scaledDown bool) {
	f.monitor.forget(pod)
	f.pods.slots.vacate(f.serviceOf(pod), pod.Name, scaledDown)
}

// Restart implements [platform.TaskFaults]: it waits for the pod that the Deployment creates.
func (f *faults) Restart(ctx context.Context, id string) error {
	service, number, ok := f.pods.slots.find(strings.TrimSuffix(id, "/"+appContainer))
	if !ok {
		return errNoService
	}
	return f.awaitReplacement(ctx, service, number)
}

// awaitReplacement waits for a ready pod in a slot and monitors it.
func (f *faults) awaitReplacement(ctx context.Context, service string, number int) error {
	pod, err := f.pods.awaitReplacement(ctx, service, number)
	if err != nil {
		return err
	}
	f.monitor.add(pod)
	return nil
}

func (f *faults) Freeze(context.Context, string, bool) error {
	return fmt.Errorf("%w on Kubernetes: %s", errors.ErrUnsupported, noSignals)
}

const (
	// deletionCost is the annotation by which a ReplicaSet chooses the pod to delete first (KEP-2255).
	deletionCost = "controller.kubernetes.io/pod-deletion-cost"
	deleteFirst  = "-1000000"
)

// scaler changes the replica counts of services.
type scaler struct {
	*trial
	pods   *trialPods
	faults *faults

	mu    sync.Mutex     // held during a change
	delta map[string]int // replicas beyond the specification, by service
}

// Shrink implements [platform.Scaler]: it removes one replica, and makes the ReplicaSet delete this pod.
func (s *scaler) Shrink(ctx context.Context, name string, grace time.Duration) error {
	pod, err := s.pods.find(name + "/" + appContainer)
	if errors.Is(err, errEnded) {
		return nil
	}
	if err != nil {
		return err
	}
	return s.removeReplica(ctx, pod, grace)
}

func (s *scaler) removeReplica(ctx context.Context, pod *corev1.Pod, grace time.Duration) error {
	pods := s.cluster.Typed().CoreV1().Pods(pod.Namespace)
	err := s.cluster.Retry(ctx, "mark "+pod.Name, func(ctx context.Context) error {
		_, err := pods.Patch(ctx, pod.Name, types.MergePatchType, []byte(`{"metadata":{"annotations":{"`+deletionCost+`":"`+deleteFirst+`"}}}`), metav1.PatchOptions{})
		return err
	})
	if err != nil {
		return err
	}
	// The ReplicaSet's controller sees the annotation through a watch, as this one does. The count changes only then.
	err = wait.Within(ctx, endTimeout, pollInterval, func(context.Context) error {
		if now := s.pods.byUID(pod.UID); now != nil && now.Annotations[deletionCost] != deleteFirst {
			return fmt.Errorf("pod %s is not marked", pod.Name)
		}
		return nil
	})
	if err != nil {
		return err
	}
	s.faults.release(pod, true)
	if err := s.scaleBy(ctx, pod.Labels[labelService], -1); err != nil {
		return err
	}
	return s.pods.awaitDeleted(ctx, pod, max(grace, graceSeconds*time.Second))
}

// Grow implements [platform.Scaler]: it adds one replica, which takes the slot of the removed one.
func (s *scaler) Grow(ctx context.Context, name string) error {
	service, number, ok := s.pods.slots.find(name)
	if !ok {
		return errNoService
	}
	if s.pods.slots.reopen(service, number) {
		if err := s.scaleBy(ctx, service, +1); err != nil {
			return err
		}
	}
	return s.faults.awaitReplacement(ctx, service, number)
}

// scaleBy changes the replica count of a service.
func (s *scaler) scaleBy(ctx context.Context, name string, by int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	service, ok := s.spec.Topology.Service(name)
	if !ok {
		return errNoService
	}
	if s.delta == nil {
		s.delta = map[string]int{}
	}
	s.delta[name] += by
	replicas := s.spec.Replicas(service) + s.delta[name]
	return s.cluster.Retry(ctx, "scale "+name, func(ctx context.Context) error {
		_, err := s.cluster.Typed().AppsV1().Deployments(s.namespace).Patch(ctx, name, types.MergePatchType,
			fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas), metav1.PatchOptions{})
		return err
	})
}

const (
	// directEvery is the time between two requests to a pod that has just started, past its sidecar.
	directEvery = 5 * time.Millisecond
	// directTimeout bounds such a request, with the call of another service.
	directTimeout = 2 * time.Second
	// startLead is the time of requests through the Service before the pods are stopped, and after the last is ready.
	startLead = time.Second
	// startConnections is the number of connections for them. One that finds no endpoint may wait for its timeout.
	startConnections = 64
	// startsFile has the answers of the load while pods start.
	startsFile = "starts.csv"
)

// podStarter implements [platform.Deployment.StopAndStart]. It scales the entry to none and back. The watch of the trial's pods, requests to each pod
// and the answers of a load worker show what has started, all by the clock of this machine.
type podStarter struct {
	*trial
	pods    *trialPods
	monitor *podMonitor
	faults  *faults
	scaler  *scaler
	prober  *prober
	load    loadSource
	workers *workerPool // nil if the load comes from this machine
	archive archive

	mu   sync.Mutex
	seen map[string]map[string]time.Time // by pod and part, nil before the first start
}

// gone is the part of a pod that was deleted.
const gone = "gone"

// changed notes what a pod's state shows for the first time.
func (s *podStarter) changed(pod *corev1.Pod, deleted bool) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen == nil || s.serviceOf(pod) != s.spec.Topology.EntryName() {
		return
	}
	if s.seen[pod.Name] == nil {
		s.seen[pod.Name] = map[string]time.Time{}
	}
	for part, is := range s.states(pod, deleted) {
		if _, before := s.seen[pod.Name][part]; is && !before {
			s.seen[pod.Name][part] = now
		}
	}
}

// states are the parts of a pod that its status has. A kubelet reports a status later than it is.
func (s *podStarter) states(pod *corev1.Pod, deleted bool) map[string]bool {
	is := map[string]bool{"created": true, "scheduled": pod.Spec.NodeName != "", "ready": cluster.PodReady(pod), gone: deleted}
	for _, c := range pod.Status.Conditions {
		is["initialized"] = is["initialized"] || c.Type == corev1.PodInitialized && c.Status == corev1.ConditionTrue
	}
	for _, c := range statuses(pod) {
		is["running"] = is["running"] || c.Name == appContainer && c.State.Running != nil
		is["sidecar"] = is["sidecar"] || c.Ready && s.isProxy(c.Name)
	}
	return is
}

func (s *podStarter) isProxy(container string) bool {
	k := s.spec.Mesh.Kubernetes
	return k != nil && slices.ContainsFunc(k.Proxies, func(p mesh.Proxy) bool { return p.In == mesh.InPod && p.Container == container })
}

// StopAndStart implements [platform.Deployment.StopAndStart].
func (s *podStarter) StopAndStart(ctx context.Context) (all []platform.PodStart, err error) {
	defer func() { err = hint.Prefix(err, "stop and start the pods of %s", s.spec.Topology.EntryName()) }()
	through, err := s.sendThrough(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, through.process.Stop(context.WithoutCancel(ctx), time.Second)) }()
	if err := wait.For(ctx, startLead); err != nil {
		return nil, err
	}
	stopped, ended, err := s.stop(ctx)
	if err != nil {
		return nil, err
	}
	began, started, err := s.start(ctx, len(stopped))
	if err != nil {
		return nil, err
	}
	if err := wait.For(ctx, startLead); err != nil {
		return nil, err
	}
	answers, err := through.end(ctx)
	if err != nil {
		return nil, err
	}
	for i, pod := range started {
		one := platform.PodStart{Gone: map[string]time.Duration{"app": stopped[i]}, First: map[string]time.Duration{}}
		for part, at := range pod.parts {
			one.First[part] = at.Sub(began)
		}
		for _, a := range answers {
			at := through.began.Add(time.Duration(a.End))
			if first, has := one.First["through"]; a.OK && strings.HasSuffix(a.Version, " "+pod.name) && (!has || at.Sub(began) < first) {
				one.First["through"] = at.Sub(began)
			}
			if sent := through.began.Add(time.Duration(a.Sent)); !a.OK && sent.Before(ended) && i == 0 {
				one.Lost++
			}
		}
		all = append(all, one)
	}
	return all, nil
}

// stop scales the entry to none. It returns how long each pod took to be gone, and when the last one was.
func (s *podStarter) stop(ctx context.Context) (each []time.Duration, last time.Time, err error) {
	s.mu.Lock()
	s.seen = map[string]map[string]time.Time{}
	s.mu.Unlock()
	service := s.spec.Topology.EntryName()
	pods := s.pods.ofService(service)
	for _, pod := range pods {
		s.faults.release(pod, true)
	}
	began := time.Now()
	if err := s.scaler.scaleBy(ctx, service, -len(pods)); err != nil {
		return nil, last, err
	}
	for _, pod := range pods {
		if err := s.pods.awaitDeleted(ctx, pod, graceSeconds*time.Second); err != nil {
			return nil, last, err
		}
		s.mu.Lock()
		at := s.seen[pod.Name][gone]
		s.mu.Unlock()
		each = append(each, at.Sub(began))
		if at.After(last) {
			last = at
		}
	}
	return each, last, nil
}

type startedPod struct {
	name  string
	parts map[string]time.Time
}

// start scales the entry to a number of pods, and waits until all are ready. began is the time of the request.
func (s *podStarter) start(ctx context.Context, n int) (began time.Time, all []startedPod, err error) {
	s.mu.Lock()
	s.seen = map[string]map[string]time.Time{}
	s.mu.Unlock()
	service := s.spec.Topology.EntryName()
	for i := range s.pods.slots.count(service) {
		s.pods.slots.reopen(service, i)
	}
	began = time.Now()
	if err := s.scaler.scaleBy(ctx, service, n); err != nil {
		return began, nil, err
	}
	var direct errgroup.Group
	asked := map[string]bool{}
	err = wait.Within(ctx, replaceTimeout, directEvery, func(context.Context) error {
		all = s.parts()
		ready := 0
		for _, pod := range all {
			if _, runs := pod.parts["running"]; runs && !asked[pod.name] {
				asked[pod.name] = true
				direct.Go(routine.Guarded(func() error { return s.askDirectly(ctx, pod.name) }))
			}
			if _, is := pod.parts["ready"]; is {
				ready++
			}
		}
		if ready < n {
			return fmt.Errorf("%d of %d new pods are ready", ready, n)
		}
		return nil
	})
	if err = errors.Join(err, direct.Wait()); err != nil {
		return began, nil, err
	}
	for _, pod := range s.pods.ofService(service) {
		s.monitor.add(pod)
	}
	return began, s.parts(), nil
}

// parts are the new pods, by name.
func (s *podStarter) parts() (all []startedPod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, parts := range s.seen {
		one := startedPod{name: name, parts: map[string]time.Time{}}
		maps.Copy(one.parts, parts)
		all = append(all, one)
	}
	slices.SortFunc(all, func(a, b startedPod) int { return strings.Compare(a.name, b.name) })
	return all
}

// askDirectly sends requests to a pod past its sidecar, each once the one before is answered: until the application answers, and if
// it calls another service until such a call succeeds.
func (s *podStarter) askDirectly(ctx context.Context, pod string) error {
	forward := s.cluster.Forward(s.namespace, pod, servicePort)
	defer forward.Close()
	client := &http.Client{Transport: &http.Transport{DialContext: forward.DialContext}, Timeout: directTimeout}
	defer client.CloseIdleConnections()
	calls := len(s.spec.Entry().Calls) > 0
	return wait.Within(ctx, replaceTimeout, directEvery, func(ctx context.Context) error {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+pod+"/", nil)
		if err != nil {
			return err
		}
		answer, err := client.Do(r)
		if err != nil {
			return err
		}
		answer.Body.Close()
		now := time.Now()
		s.mu.Lock()
		defer s.mu.Unlock()
		if _, before := s.seen[pod]["app"]; !before {
			s.seen[pod]["app"] = now
		}
		if !calls {
			return nil
		}
		if answer.StatusCode/100 != 2 {
			return fmt.Errorf("call of another service: %s", answer.Status)
		}
		s.seen[pod]["outbound"] = now
		return nil
	})
}

// through is the load through the entry's Service while pods stop and start.
type through struct {
	process platform.Process
	dir     string
	began   time.Time // of the load's schedule
}

// sendThrough sends requests at a fixed rate, each on a connection of its own.
func (s *podStarter) sendThrough(ctx context.Context) (*through, error) {
	p := s.prober.probe.Load
	p.Segments, p.Await, p.Hold = nil, nil, false
	p.Rate, p.ConnectionRate, p.Arrivals = metric.StartProbeRate, metric.StartProbeRate, "constant"
	p.Connections, p.Workers, p.Timeout, p.Drain = startConnections, 1, time.Second, time.Second
	p.Warmup, p.Measure, p.Tail, p.Requests = 0, replaceTimeout, 0, 0
	began := time.Now().Add(startLead)
	p.Start, p.HDRPath, p.AnswersPath = began, "", startsFile
	if s.workers != nil { // the first one sends the only load
		ahead, _, err := s.workers.LoadClock(ctx, 0)
		if err != nil {
			return nil, err
		}
		p.Start = began.Add(ahead)
	}
	stdin, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("write load profile: %w", err)
	}
	dir, err := os.MkdirTemp("", "tare-starts-")
	if err != nil {
		return nil, err
	}
	process, err := s.load.StartLoad(ctx, proc.Command{Path: s.prober.agent(), Args: []string{"load"}, Dir: dir, Stdin: bytes.NewReader(stdin)})
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return &through{process: process, dir: dir, began: began}, nil
}

// end stops the load and returns its answers.
func (t *through) end(ctx context.Context) (all []record.Answer, err error) {
	defer func() { err = errors.Join(err, os.RemoveAll(t.dir)) }()
	if err := t.process.Stop(ctx, directTimeout); err != nil {
		return nil, err
	}
	if err := t.process.Wait(); err != nil {
		return nil, fmt.Errorf("requests through the Service: %w", err)
	}
	f, err := os.Open(filepath.Join(t.dir, startsFile))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return record.ReadAnswers(f)
}
