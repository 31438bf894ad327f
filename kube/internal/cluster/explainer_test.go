package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/test/difftest"
	"github.com/tare-mesh/tare/test/must"
)

// serve connects to a server that answers each path with an object, or with a handler.
func serve(t *testing.T, answers map[string]any) *Cluster {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch a := answers[r.URL.Path].(type) {
		case nil:
			http.NotFound(w, r)
		case http.HandlerFunc:
			a(w, r)
		case string:
			_, _ = w.Write([]byte(a))
		default:
			w.Header().Set("Content-Type", "application/json")
			if err := json.NewEncoder(w).Encode(a); err != nil {
				t.Error(err)
			}
		}
	}))
	t.Cleanup(server.Close)
	return must.Get(newCluster(&rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}, "test"))(t)
}

func pod(name string, phase corev1.PodPhase, statuses ...corev1.ContainerStatus) corev1.Pod {
	return corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}, Status: corev1.PodStatus{Phase: phase, ContainerStatuses: statuses}}
}

func waiting(reason string) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: "app", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: "details"}}}
}

func TestExplanations(t *testing.T) {
	oom := waiting("CrashLoopBackOff")
	oom.RestartCount = 2
	oom.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{Reason: "OOMKilled", ExitCode: 137}
	missing := waiting("ImagePullBackOff")
	missing.State.Waiting.Message = `Back-off pulling image "x:1": ErrImagePull: failed to resolve reference "x:1": x:1: not found`
	unresolved := waiting("ImagePullBackOff")
	unresolved.State.Waiting.Message = `Back-off pulling image "r.test/x:1": ErrImagePull: failed to do request: Head "https://r.test/v2/x/manifests/1": dial tcp: lookup r.test on 10.255.255.53:53: connect: network is unreachable`
	crash, noProgram := waiting("CrashLoopBackOff"), waiting("CrashLoopBackOff")
	crash.RestartCount, noProgram.RestartCount = 2, 2
	started := metav1.Now()
	crash.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{Reason: "Error", ExitCode: 3, StartedAt: started}
	noProgram.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{Reason: "StartError", ExitCode: 128, Message: `exec: "/x": stat /x: no such file or directory`}
	const crashed = "pod p: container app: CrashLoopBackOff: exited with code 3 (Error), restarted 2 times\n| the last line"
	var others []corev1.Pod // ready before the last start, and after it
	for _, since := range []time.Duration{-time.Minute, time.Minute} {
		other := pod("other", corev1.PodRunning)
		other.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(started.Add(since))}}
		others = append(others, other)
	}
	unscheduled := pod("p", corev1.PodPending)
	unscheduled.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/1 nodes"}}
	ending := pod("p", corev1.PodPending, waiting("ErrImageNeverPull"))
	ending.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	quota := corev1.Event{InvolvedObject: corev1.ObjectReference{Kind: "ReplicaSet", Name: "cart-1"}, Reason: "FailedCreate",
		Message: `Error creating: pods "cart-1-x" is forbidden: exceeded quota: none`}
	invalid := quota
	invalid.Message = `Error creating: Pod "cart-1-x" is invalid: spec.initContainers[0].resources.requests: Invalid value: "100m": must be less than or equal to cpu limit of 50m`
	again := quota
	again.Message = `Error creating: pods "cart-1-y" is forbidden: exceeded quota: none`
	created := func(message string) []corev1.Event {
		e := quota
		e.Message = `Error creating: pods "cart-1-x" is forbidden: ` + message
		return []corev1.Event{e}
	}
	const (
		tooLarge = "exceeded quota: small, requested: limits.cpu=2, used: limits.cpu=0, limited: limits.cpu=1500m"
		full     = "exceeded quota: small, requested: limits.cpu=1, used: limits.cpu=1, limited: limits.cpu=1500m"
		unset    = "failed quota: small: must specify limits.cpu for: app"
		security = `violates PodSecurity "restricted:latest": allowPrivilegeEscalation != false (container "app" must set securityContext.allowPrivilegeEscalation=false)`
		class    = "no PriorityClass with name fast was found"
		user     = `User "system:serviceaccount:kube-system:replicaset-controller" cannot create resource "pods"`
		ranged   = "maximum cpu usage per Container is 100m, but limit is 2"
		refused  = "replicaset cart-1: FailedCreate: Error creating: a pod is forbidden: "
	)
	for name, c := range map[string]struct {
		pods      []corev1.Pod
		events    []corev1.Event
		want      []string
		hint      string
		permanent bool
	}{
		"starting":       {pods: []corev1.Pod{pod("p", corev1.PodPending, waiting("ContainerCreating"))}},
		"image":          {[]corev1.Pod{pod("p", corev1.PodPending, waiting("ImagePullBackOff"))}, nil, []string{"pod p: container app: ImagePullBackOff: details"}, "registry", false},
		"never pulled":   {[]corev1.Pod{pod("p", corev1.PodPending, waiting("ErrImageNeverPull"))}, nil, []string{"pod p: container app: ErrImageNeverPull: details"}, "tare cluster image load", true},
		"out of memory":  {[]corev1.Pod{pod("p", corev1.PodRunning, oom)}, nil, []string{"pod p: container app: CrashLoopBackOff: exited with code 137 (OOMKilled), restarted 2 times\n| the last line"}, "memory limit", false},
		"being replaced": {[]corev1.Pod{ending}, nil, nil, "", false},
		"unschedulable":  {[]corev1.Pod{unscheduled}, nil, []string{"pod p: Unschedulable: 0/1 nodes"}, "no node takes the pod", false},
		"replicas alike": {[]corev1.Pod{pod("p", corev1.PodPending, waiting("InvalidImageName")), pod("q", corev1.PodPending, waiting("InvalidImageName"))}, nil, []string{"pod p: container app: InvalidImageName: details"}, "not a valid reference", true},
		"no such image":  {[]corev1.Pod{pod("p", corev1.PodPending, missing)}, nil, []string{"pod p: container app: ImagePullBackOff: " + missing.State.Waiting.Message}, "registry", true},
		"no name":        {[]corev1.Pod{pod("p", corev1.PodPending, unresolved)}, nil, []string{"pod p: container app: ImagePullBackOff: " + unresolved.State.Waiting.Message}, "registry", true},
		"no program":     {[]corev1.Pod{pod("p", corev1.PodRunning, noProgram)}, nil, []string{"pod p: container app: CrashLoopBackOff: exited with code 128 (StartError): exec: \"/x\": stat /x: no such file or directory, restarted 2 times\n| the last line"}, "no such program", true},
		"crashes":        {[]corev1.Pod{pod("p", corev1.PodRunning, crash), others[0]}, nil, []string{crashed}, "log", true},
		"crashes before": {[]corev1.Pod{pod("p", corev1.PodRunning, crash), others[1]}, nil, []string{crashed}, "log", false},
		"quota":          {nil, []corev1.Event{quota, again}, []string{"replicaset cart-1: FailedCreate: Error creating: a pod is forbidden: exceeded quota: none"}, "ResourceQuota", false},
		"above quota":    {nil, created(tooLarge), []string{refused + tooLarge}, "platform.resources", true},
		"quota is full":  {nil, created(full), []string{refused + full}, "platform.resources", false},
		"quota, not set": {nil, created(unset), []string{refused + unset}, "platform.resources", true},
		"limit range":    {nil, created(ranged), []string{refused + ranged}, "LimitRange", true},
		"pod security":   {nil, created(security), []string{refused + security}, "pod security standard", true},
		"no such class":  {nil, created(class), []string{refused + class}, "admission plugin", false},
		"no permission":  {nil, created(user), []string{refused + user}, "RBAC", false},
		"invalid":        {nil, []corev1.Event{invalid}, []string{`replicaset cart-1: FailedCreate: Error creating: a pod is invalid: spec.initContainers[0].resources.requests: Invalid value: "100m": must be less than or equal to cpu limit of 50m`}, "`requests` beside `limits`", true},
	} {
		k := serve(t, map[string]any{
			"/api/v1/namespaces/shop/pods":       corev1.PodList{Items: c.pods},
			"/api/v1/namespaces/shop/events":     corev1.EventList{Items: c.events},
			"/api/v1/namespaces/shop/pods/p/log": "the last line\n",
		})
		deployment := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "apps/v1", "kind": "Deployment",
			"metadata": map[string]any{"namespace": "shop", "name": "cart"},
			"spec":     map[string]any{"selector": map[string]any{"matchLabels": map[string]any{"app": "cart"}}}}}
		e := k.explainer.explain(t.Context(), refOf(deployment), deployment)
		var got []string
		for _, r := range e.reasons {
			got = append(got, r.String())
		}
		if !strings.Contains(e.hint(), c.hint) || (c.hint == "") != (e.hint() == "") {
			t.Errorf("%s: %q, permanent %v, hint %q", name, got, e.permanent, e.hint())
		} else if d := difftest.Of(`strings.Join(got, "\n")`, strings.Join(got, "\n"), strings.Join(c.want, "\n"), "e.permanent", e.permanent, c.permanent); d != "" {
			t.Errorf("%s: %s: %q, permanent %v, hint %q", d, name, got, e.permanent, e.hint())
		}
	}
}

// An overloaded API server is called again until it answers. A missing permission is final, and has a hint.
func TestRetry(t *testing.T) {
	calls := 0
	c := serve(t, map[string]any{
		"/version": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if calls++; calls < 3 {
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			_, _ = w.Write([]byte(`{"gitVersion": "v1.36.3"}`))
		}),
		"/api/v1/nodes": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			calls++
			http.Error(w, "no", http.StatusForbidden)
		}),
	})
	if v, err := c.Version(t.Context()); err != nil || v != "v1.36.3" || calls != 3 {
		t.Errorf("%s, %v after %d calls", v, err, calls)
	}
	calls = 0
	_, err := c.Nodes(t.Context())
	if !IsForbidden(err) || calls != 1 || hint.Of(err) != HintPermissions || !strings.HasPrefix(err.Error(), "list the nodes: ") {
		t.Errorf("%v, hint %q after %d calls", err, hint.Of(err), calls)
	}
}

// A sidecar that finds no inotify instance left names the setting of the node.
func TestHintOfInotify(t *testing.T) {
	for line, want := range map[string]string{"Error: failed to create fsnotify watcher: too many open files": "fs.inotify.max_user_instances", "panic": "log"} {
		e := explanation{reasons: []reason{{kind: "CrashLoopBackOff", log: []string{"info", line}}}}
		if got := e.hint(); !strings.Contains(got, want) {
			t.Errorf("%s: %q", line, got)
		}
	}
}

// An object that an admission plugin refuses needs no permission: the API server has one status for both.
func TestRefusedIsNotForbidden(t *testing.T) {
	for message, want := range map[string]string{
		`exceeded quota: small, requested: pods=1, used: pods=3, limited: pods=3`: "ResourceQuota",
		`maximum cpu usage per Container is 100m, but limit is 2`:                 "LimitRange",
		`violates PodSecurity "restricted:latest": runAsNonRoot != true`:          "pod security standard",
		`User "jo" cannot create resource "pods" in API group ""`:                 "RBAC",
	} {
		err := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "cart", errors.New(message))
		if got := (requests{}).hint(err); !strings.Contains(got, want) || IsForbidden(err) != (want == "RBAC") {
			t.Errorf("%s: hint %q, a missing permission: %v", message, got, IsForbidden(err))
		}
	}
}

// A server that does not answer is an error with the time spent. An interrupt is not.
func TestRetryEnds(t *testing.T) {
	c := serve(t, map[string]any{"/version": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) })})
	ctx, cancel := context.WithTimeout(t.Context(), 250*time.Millisecond) // within a pause: attempts begin at 0, 100 and 300 ms
	defer cancel()
	must.Fail(t, must.Err(c.Version(ctx)), "tried for ")
	interrupted, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Version(interrupted); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}
