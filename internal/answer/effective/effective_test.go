package effective_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/answer/effective"
	"github.com/tare-mesh/tare/test/difftest"
	"github.com/tare-mesh/tare/test/must"
)

// trial writes the provenance of a trial as a cluster has it: other names, addresses, identifiers and times in each.
func trial(t *testing.T, number int, hbone bool, image string) effective.Configuration {
	t.Helper()
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		must.File(t, dir, name, text)
	}
	clusters := []string{fmt.Sprintf(`{"cluster": {"name": "inbound|8080||", "load_assignment": {"address": "10.42.0.%d:8080"}}, "last_updated": "2026-11-22T16:0%d:00Z"}`, number, number)}
	// The listener of a Service is named for its address, which differs between installations of a mesh.
	listeners := fmt.Sprintf(`{"name": "10.96.%d.103_443", "active_state": {"listener": {"name": "10.96.%d.103_443", "stat_prefix": "outbound|443||istiod"}}}, {"name": "10.96.%d.1_443", "stat_prefix": "outbound|443||kubernetes"}`, 90/number, 90/number, 7*number)
	if one, other, _ := strings.Cut(listeners, ", {\"name\": \"10.96."); number%2 == 0 { // in the order of the addresses
		listeners = "{\"name\": \"10.96." + other + ", " + one
	}
	if hbone {
		clusters = append(clusters, `{"cluster": {"name": "connect_originate", "type": "ORIGINAL_DST", "http2": {"max_streams": 100}}}`)
	}
	if number%2 == 0 { // the order of a dump is not a difference
		for i, j := 0, len(clusters)-1; i < j; i, j = i+1, j-1 {
			clusters[i], clusters[j] = clusters[j], clusters[i]
		}
	}
	pod := fmt.Sprintf("tare-v-0123abcd-%d-echo-6d4cf56db6-abcd%d", number, number)
	write(filepath.Join("mesh", "installation.json"), fmt.Sprintf(`{"mesh": "istio-%d", "version": "1.29.2"}`, number))
	write(filepath.Join("mesh", "images.json"), fmt.Sprintf(`[{"container": "app", "pod": "echo-6d4cf56db6-abcd%d"}]`, number))
	write(filepath.Join("mesh", "proxies", pod+"-server_info.json.gz"), small(t, fmt.Sprintf(`{"command_line_options": {"concurrency": %d}, "uptime_all_epochs": "%ds"}`, 2, number)))
	write(filepath.Join("mesh", "proxies", fmt.Sprintf("tare-v-0123abcd-%d-load-0-abcd%d-server_info.json", number, number)), `{"command_line_options": {"concurrency": 2}}`)
	write(filepath.Join("mesh", "proxies", pod+"-config_dump.json.gz"), small(t, fmt.Sprintf(
		`{"configs": [{"@type": "x.ClustersConfigDump", "version_info": "%d", "dynamic_active_clusters": [%s], "dynamic_listeners": [%s]}, {"@type": "x.BootstrapConfigDump", "bootstrap": {"node": {"id": "sidecar~10.42.0.%d~echo-6d4cf56db6-abcd%d", "nonce": "n%d"}}}]}`,
		number, strings.Join(clusters, ", "), listeners, number, number, number)))
	write("pods.yaml", fmt.Sprintf(`---
apiVersion: v1
kind: Pod
metadata:
  name: echo-6d4cf56db6-abcd%d
  namespace: tare-v-0123abcd-%d
  uid: 6d9f0d2e-1111-4222-8333-00000000000%d
  labels: {tare.dev/service: echo}
spec:
  containers:
  - {name: app, image: agent}
  - name: istio-proxy
    image: %s
    env: [{name: ISTIO_META_ENABLE_HBONE, value: "%v"}]
    volumeMounts: [{name: kube-api-access-x%d9qq, mountPath: /var/run/secrets}]
status: {podIP: 10.42.0.%d}
`, number, number, number, image, hbone, number, number))
	c, err := effective.Read(dir)
	if err != nil || len(c) == 0 {
		t.Fatalf("%d values, %v", len(c), err)
	}
	return c
}

// small is a text compressed by gzip, as large files of a cluster are.
func small(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	must.Get(w.Write([]byte(text)))(t)
	must.OK(t, w.Close())
	return b.String()
}

// A figure for "sidecar" was once published with HBONE on in one of the two.
func TestSettingThatNobodySet(t *testing.T) {
	a := []effective.Configuration{trial(t, 1, false, "proxyv2:1.29"), trial(t, 2, false, "proxyv2:1.29")}
	b := []effective.Configuration{trial(t, 3, true, "proxyv2:1.29"), trial(t, 4, true, "proxyv2:1.29")}
	got, known := effective.Compare(a, b)
	want := []effective.Difference{
		{Files: []string{"mesh/proxies/echo"}, Path: "configs[ClustersConfigDump].dynamic_active_clusters[connect_originate]", B: "present", Values: 3},
		{Files: []string{"pods/echo"}, Path: "spec.containers[istio-proxy].env[ISTIO_META_ENABLE_HBONE].value", A: "false", B: "true", Values: 1},
	}
	if !known || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
}

func TestTrialsOfOneTreatmentAreTheSame(t *testing.T) {
	var all []effective.Configuration
	for i := range 4 {
		all = append(all, trial(t, i+1, true, "proxyv2:1.29"))
	}
	if got, known := effective.Compare(all[:2], all[2:]); !known || len(got) > 0 {
		t.Errorf("got %+v, %v", got, known)
	}
	// Of single trials, the nonce has no form that is known to be noise.
	if got, known := effective.Compare(all[:1], all[1:2]); !known || len(got) != 1 || !strings.HasSuffix(got[0].Path, "nonce") {
		t.Errorf("single trials: got %+v, %v", got, known)
	}
	other := []effective.Configuration{trial(t, 7, true, "proxyv2:1.30"), trial(t, 8, true, "proxyv2:1.30")}
	if got, _ := effective.Compare(all, other); len(got) != 1 || got[0].A != "proxyv2:1.29" || got[0].B != "proxyv2:1.30" {
		t.Errorf("another image: got %+v", got)
	}
	if _, known := effective.Compare(all, nil); known {
		t.Error("nothing is compared with nothing")
	}
}

// Consul names a listener for its address, which differs between trials, and its clusters have dots in their names.
func TestListenersNamedForTheirAddress(t *testing.T) {
	of := func(number, callers, services int) effective.Configuration {
		dir := t.TempDir()
		var principals, clusters []string
		for i := range callers {
			principals = append(principals, fmt.Sprintf(`{"authenticated": {"principal_name": {"exact": "spiffe://x/svc/caller-%d"}}}`, i+1))
		}
		for i := range services {
			clusters = append(clusters, fmt.Sprintf(`{"cluster": {"name": "known-%d.default.dc1.internal", "type": "EDS"}}`, i+1))
		}
		text := fmt.Sprintf(`{"configs": [{"@type": "x.ListenersConfigDump", "dynamic_listeners": [{"name": "public_listener:127.0.%[1]d.2:4%[1]d00", "active_state":
			{"listener": {"name": "public_listener:127.0.%[1]d.2:4%[1]d00", "filters": [{"name": "envoy.filters.network.rbac", "principals": [%[2]s]}]}}}]},
			{"@type": "x.ClustersConfigDump", "dynamic_active_clusters": [%[3]s]}]}`, number, strings.Join(principals, ", "), strings.Join(clusters, ", "))
		must.OK(t, os.WriteFile(filepath.Join(dir, "back-0-sidecar-config_dump.json"), []byte(text), 0o600))
		c := must.Get(effective.Read(dir))(t)
		return c
	}
	got, known := effective.Compare([]effective.Configuration{of(1, 1, 0), of(2, 1, 0)}, []effective.Configuration{of(3, 2, 1), of(4, 2, 1)})
	want := []effective.Difference{
		{Files: []string{"back-0"}, Path: "configs[ClustersConfigDump].dynamic_active_clusters", B: "present", Values: 2},
		{Files: []string{"back-0"}, Path: "configs[ListenersConfigDump].dynamic_listeners[public_listener:ADDRESS].active_state.listener.filters[rbac].principals[spiffe://x/svc/caller-2]",
			B: "present", Values: 1},
	}
	if !known || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
	got, _ = effective.Compare([]effective.Configuration{of(1, 1, 1), of(2, 1, 1)}, []effective.Configuration{of(3, 1, 2), of(4, 1, 2)})
	if len(got) != 1 || got[0].Path != "configs[ClustersConfigDump].dynamic_active_clusters[known-2.default.dc1.internal]" {
		t.Errorf("a further cluster: %+v", got)
	}
}

// A dump has values that the file a proxy starts with lacks. Without a dump in one of the trials, none of its values are compared.
func TestProxyWithoutDump(t *testing.T) {
	of := func(files map[string]string) effective.Configuration {
		dir := t.TempDir()
		for name, text := range files {
			must.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
		}
		c := must.Get(effective.Read(dir))(t)
		return c
	}
	const dump = `{"configs": [{"@type": "x.ClustersConfigDump", "static_clusters": [{"cluster": {"name": "a"}}]}]}`
	command := func(size int) string { return fmt.Sprintf("# echo-0/sidecar, pid 1\nenvoy --size %d\n", size) }
	whole := of(map[string]string{"echo-0-sidecar.yaml": "static_resources: {clusters: [{name: a}]}", "echo-0-sidecar-config_dump.json": dump, "commands.sh": command(1)})
	bare := of(map[string]string{"echo-0-sidecar.yaml": "static_resources: {clusters: [{name: a}, {name: b}]}", "commands.sh": command(2)})
	packed := of(map[string]string{"echo-0-sidecar.yaml": "static_resources: {}", "echo-0-sidecar-config_dump.json.gz": small(t, strings.ReplaceAll(dump, `"a"`, `"b"`)), "commands.sh": command(2)})
	commands := effective.Difference{Files: []string{"echo-0"}, Path: "command line", A: "--size 1", B: "--size 2", Values: 1}
	for name, c := range map[string]struct {
		b           []effective.Configuration
		undumped    []string
		differences int
	}{"none": {[]effective.Configuration{bare}, []string{"echo-0"}, 1}, "in one of two": {[]effective.Configuration{packed, bare}, []string{"echo-0"}, 1}, "whole": {[]effective.Configuration{packed}, nil, 3}} {
		a := []effective.Configuration{whole}
		got, known := effective.Compare(a, c.b)
		if undumped := effective.Undumped(a, c.b); !known || !reflect.DeepEqual(undumped, c.undumped) || len(got) != c.differences {
			t.Errorf("dump of B %s: %v, %+v", name, undumped, got)
		} else if d := difftest.Wrong("!reflect.DeepEqual(got[0], commands)", !reflect.DeepEqual(got[0], commands)); d != "" {
			t.Errorf("%s: dump of B %s: %v, %+v", d, name, undumped, got)
		}
	}
}

// One proxy in front has a configuration too.
func TestConfigurationOfAGateway(t *testing.T) {
	of := func(filter string) []effective.Configuration {
		dir := t.TempDir()
		must.File(t, dir, "gateway-gateway.yaml", "filter: "+filter)
		return []effective.Configuration{must.Get(effective.Read(dir))(t)}
	}
	want := effective.Difference{Files: []string{"gateway"}, Path: "filter", A: "lua", B: "router", Values: 1}
	if got, _ := effective.Compare(of("lua"), of("router")); !reflect.DeepEqual(got, []effective.Difference{want}) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// A program's digest stands for its path: equal builds under two paths are the same, and two builds under one path differ.
func TestDigestsOfPrograms(t *testing.T) {
	read := func(digest, path string) []effective.Configuration {
		dir := t.TempDir()
		text := fmt.Sprintf("# app-0/app, process 7\n# sha256:%s %s\ncd /x && PORT=8080 %s 8080\n", digest, path, path)
		must.OK(t, os.WriteFile(filepath.Join(dir, "commands.sh"), []byte(text), 0o600))
		return []effective.Configuration{must.Get(effective.Read(dir))(t)}
	}
	for _, c := range []struct {
		name        string
		a, b        []effective.Configuration
		differences int
	}{
		{"equal builds", read("aaaa", "./old"), read("aaaa", "./new"), 0},
		{"one path", read("aaaa", "./server"), read("bbbb", "./server"), 1},
	} {
		if got, known := effective.Compare(c.a, c.b); !known || len(got) != c.differences {
			t.Errorf("%s: %+v, want %d differences", c.name, got, c.differences)
		}
	}
}
