// Command injector is the admission webhook of a mesh for tests. It adds a
// reference proxy to every pod, and an init container that redirects the
// application's inbound connections to it.
package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"net/http"
	"os"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
)

// Names and ports that the proxy's configuration (a ConfigMap of the mesh definition) and the iptables rule share.
const (
	proxyName = "weight-proxy" // of its container, and of the ConfigMap
	configDir = "/etc/weight"
	appPort   = "8080"
	proxyPort = "15006"
)

// injector injects the proxy.
type injector struct {
	image   string // of the proxy
	toolbox string // of the init container
	burn    string // CPU time per request
	native  string // value of a pod's label tare.dev/service whose proxy is a native sidecar
}

func main() {
	var i injector
	listen := flag.String("listen", ":8443", "`address` to listen on")
	dir := flag.String("tls", "/tls", "`directory` with tls.crt and tls.key")
	flag.StringVar(&i.image, "image", "", "image of the proxy")
	flag.StringVar(&i.toolbox, "toolbox", "", "image with iptables")
	flag.StringVar(&i.burn, "burn", "0s", "CPU time per request")
	flag.StringVar(&i.native, "native", "", "`service` whose pods get a native sidecar")
	flag.Parse()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /ready", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("POST /inject", i.serve)
	server := &http.Server{Addr: *listen, Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	if err := server.ListenAndServeTLS(*dir+"/tls.crt", *dir+"/tls.key"); err != nil {
		log.Print(err)
		os.Exit(1)
	}
}

func (i injector) serve(w http.ResponseWriter, r *http.Request) {
	var review admissionv1.AdmissionReview
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 8<<20)).Decode(&review); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if review.Request == nil {
		http.Error(w, "the review has no request", http.StatusBadRequest)
		return
	}
	patch, err := i.patch(review.Request.Object.Raw)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	kind := admissionv1.PatchTypeJSONPatch
	review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true, Patch: patch, PatchType: &kind}
	review.Request = nil
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(review); err != nil {
		log.Print(err)
	}
}

// operation of a JSON patch (RFC 6902).
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

func (i injector) patch(raw []byte) ([]byte, error) {
	var pod corev1.Pod
	if err := json.Unmarshal(raw, &pod); err != nil {
		return nil, fmt.Errorf("read the pod: %w", err)
	}
	if pod.Labels == nil {
		return nil, errors.New("the pod has no labels")
	}
	pod.Labels["weight.test/injected"] = "yes"
	service := cmp.Or(pod.Labels["tare.dev/service"], pod.Labels["app"])
	proxy := corev1.Container{
		Name: proxyName, Image: i.image, ImagePullPolicy: corev1.PullNever,
		Args:         []string{"proxy", "--config", configDir + "/proxy.json", "--burn", i.burn},
		VolumeMounts: []corev1.VolumeMount{{Name: proxyName, MountPath: configDir, ReadOnly: true}},
	}
	pod.Spec.InitContainers = append(pod.Spec.InitContainers, i.redirect())
	if service == i.native {
		always := corev1.ContainerRestartPolicyAlways
		proxy.RestartPolicy = &always
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, proxy)
	} else {
		pod.Spec.Containers = append(pod.Spec.Containers, proxy)
	}
	pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: proxyName, VolumeSource: corev1.VolumeSource{
		ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: proxyName}}}})
	return json.Marshal([]operation{{"replace", "/metadata/labels", pod.Labels}, {"replace", "/spec", pod.Spec}})
}

// redirect redirects connections from other pods to the application's port to the proxy. The proxy's own connections use
// loopback, and are not redirected.
func (i injector) redirect() corev1.Container {
	root, no := int64(0), false
	return corev1.Container{
		Name: "weight-redirect", Image: i.toolbox, ImagePullPolicy: corev1.PullNever,
		Command: []string{"/usr/sbin/iptables", "-t", "nat", "-A", "PREROUTING", "-p", "tcp", "--dport", appPort, "-j", "REDIRECT", "--to-ports", proxyPort},
		SecurityContext: &corev1.SecurityContext{RunAsUser: &root, RunAsGroup: &root, RunAsNonRoot: &no,
			Capabilities: &corev1.Capabilities{Add: []corev1.Capability{"NET_ADMIN", "NET_RAW"}}},
	}
}
