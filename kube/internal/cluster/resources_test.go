package cluster

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"github.com/tare-mesh/tare/test/must"
)

// An aggregated API that is away for a moment, as while its server restarts, is awaited. One that stays away is in
// the error, beside the kinds of the others.
func TestKindsAwaitAggregatedAPI(t *testing.T) {
	var asked, away atomic.Int64
	answers := map[string]string{
		"/api":    `{"kind": "APIVersions", "versions": ["v1"]}`,
		"/api/v1": `{"kind": "APIResourceList", "groupVersion": "v1", "resources": [{"name": "configmaps", "namespaced": true, "kind": "ConfigMap", "verbs": ["list", "delete"]}]}`,
		"/apis": `{"kind": "APIGroupList", "apiVersion": "v1", "groups": [{"name": "things.example.com", "versions": [{"groupVersion": "things.example.com/v1beta1", "version": "v1beta1"}],
			"preferredVersion": {"groupVersion": "things.example.com/v1beta1", "version": "v1beta1"}}]}`,
		"/apis/things.example.com/v1beta1": `{"kind": "APIResourceList", "groupVersion": "things.example.com/v1beta1", "resources": [{"name": "things", "namespaced": true, "kind": "Thing", "verbs": ["list", "delete"]}]}`,
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/apis/things.example.com/v1beta1" && asked.Add(1) <= away.Load() {
			http.Error(w, "no endpoints available", http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, answers[r.URL.Path])
	}))
	t.Cleanup(server.Close)
	client := must.Get(discovery.NewDiscoveryClientForConfig(&rest.Config{Host: server.URL}))(t)
	r := &resources{discovery: client}
	away.Store(2)
	if all, err := r.kinds(t.Context()); err != nil || len(all) != 2 {
		t.Errorf("%d kinds after %d requests, %v", len(all), asked.Load(), err)
	}
	away.Store(1 << 40)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if all, err := r.kinds(ctx); !discovery.IsGroupDiscoveryFailedError(err) || len(all) != 1 {
		t.Errorf("%d kinds of the API that answers, %v", len(all), err)
	}
	before := asked.Load()
	if _, err := r.kinds(t.Context()); !discovery.IsGroupDiscoveryFailedError(err) || asked.Load() != before+1 {
		t.Errorf("it is awaited again: %d requests, %v", asked.Load()-before, err)
	}
}
