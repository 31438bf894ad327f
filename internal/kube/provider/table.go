package provider

import "slices"

// notRunning are messages of Docker's client.
var notRunning = Problem{Output: `cannot connect to the docker daemon|is the docker daemon running|error during connect|podman.*refused`,
	Text: "the container runtime does not answer", Hint: "start Docker or Podman, and try `docker ps`"}

// kindConfig has as many workers as nodes, beside a control plane that runs no pods. One node is both.
const kindConfig = `kind: Cluster
apiVersion: kind.x-k8s.io/v1alpha4
nodes:
- role: control-plane
{{- if gt .Nodes 1}}{{range .Nodes}}
- role: worker
{{- end}}{{end}}
`

// Providers is the table, in the order of the help.
func Providers() []Provider {
	return slices.Clone(providers)
}

var providers = []Provider{
	{
		Name: "kind", Doc: "containers on this machine; above one node, a control plane beside the nodes",
		Programs: []string{"kind"}, Install: "install kind (kind.sigs.k8s.io): go install sigs.k8s.io/kind@latest",
		Has:     []string{"version"},
		List:    Call{Program: "kind", Args: [][]string{{"get", "clusters"}}},
		Listed:  `^${name}$`,
		Context: "kind-${name}",
		Create: []Call{{Program: "kind", Args: [][]string{{"create", "cluster", "--name", "${name}", "--config", "-", "--wait", "5m"},
			{"--image", "kindest/node:v${version}"}}, Input: kindConfig}},
		Delete: []Call{{Program: "kind", Args: [][]string{{"delete", "cluster", "--name", "${name}"}}}},
		Problems: []Problem{notRunning,
			{Output: `manifest .*not found|failed to pull image`, Text: "there is no node image of this version", Hint: "choose a version from the release notes of kind"}},
	},
	{
		Name: "k3d", Doc: "k3s in containers on this machine, without Traefik",
		Programs: []string{"k3d"}, Install: "install k3d (k3d.io): go install github.com/k3d-io/k3d/v5@latest",
		Has:     []string{"version"},
		List:    Call{Program: "k3d", Args: [][]string{{"cluster", "list", "--no-headers"}}},
		Listed:  `^${name}\s`,
		Context: "k3d-${name}",
		Create: []Call{{Program: "k3d", Args: [][]string{{"cluster", "create", "${name}", "--servers", "1", "--agents", "${agents}",
			"--k3s-arg", "--disable=traefik@server:*", "--wait", "--timeout", "5m"},
			{"--image", "rancher/k3s:v${version}-k3s1"}}}},
		Delete: []Call{{Program: "k3d", Args: [][]string{{"cluster", "delete", "${name}"}}}},
		Problems: []Problem{notRunning,
			{Output: `manifest .*not found|failed to pull image`, Text: "there is no k3s image of this version", Hint: "choose a version from the releases of k3s"}},
	},
	{
		Name: "k3s", Doc: "one node, this machine itself, as a systemd unit; needs root",
		Programs: []string{"k3s", "systemd-run", "systemctl", "k3s-killall.sh"}, Install: "install k3s without starting it (k3s.io): INSTALL_K3S_SKIP_START=true",
		MaxNodes: 1,
		List:     Call{Program: "systemctl", Args: [][]string{{"list-units", "--all", "--plain", "--no-legend", "k3s.service", "tare-k3s-*.service"}}},
		Listed:   `^tare-k3s-${name}\.service\s.*\s(active|activating)\s`,
		Other:    `^((?:k3s|tare-k3s-\S+)\.service)\s.*\s(?:active|activating)\s`,
		Create: []Call{{Program: "systemd-run", Args: [][]string{{"--unit=tare-k3s-${name}", "--collect", "--service-type=notify", "--property=Delegate=yes", "--property=KillMode=process", "--property=TimeoutStartSec=0",
			"k3s", "server", "--node-name", "${name}", "--data-dir", "/var/lib/tare-k3s/${name}", "--write-kubeconfig", "/var/lib/tare-k3s/${name}/kubeconfig", "--disable", "traefik"}}}},
		Separate: "/var/lib/tare-k3s/${name}/kubeconfig", Context: "k3s-${name}",
		Delete: []Call{{Program: "systemctl", Args: [][]string{{"stop", "tare-k3s-${name}"}}, Absent: `not loaded`},
			{Program: "k3s-killall.sh", Env: []string{"K3S_DATA_DIR=/var/lib/tare-k3s/${name}"}}},
		State: "/var/lib/tare-k3s/${name}", Outlives: true, // the pods of a server that died
		Problems: []Problem{
			{Output: `interactive authentication required|access denied|permission denied|must be run as root`, Text: "k3s needs root", Hint: "run it with sudo, or use k3d"},
			{Output: `not been booted with systemd`, Text: "this machine runs no systemd", Hint: "use k3d"}},
	},
	{
		Name: "gke", Doc: "Google Kubernetes Engine: with --dry-run only; --zone is a zone",
		Cloud: true, Needs: []string{"project", "zone"}, Has: []string{"project", "zone", "machine", "version"},
		Default: Settings{Nodes: 3, Machine: "e2-standard-4"}, Programs: []string{"gcloud"},
		Create: []Call{{Program: "gcloud", Args: [][]string{{"container", "clusters", "create", "${name}", "--project", "${project}", "--zone", "${zone}",
			"--num-nodes", "${nodes}", "--quiet"}, {"--machine-type", "${machine}"}, {"--cluster-version", "${version}"}}}},
	},
	{
		Name: "aks", Doc: "Azure Kubernetes Service: with --dry-run only; --zone is a location",
		Cloud: true, Needs: []string{"zone"}, Has: []string{"zone", "machine", "version"},
		Default: Settings{Nodes: 3, Machine: "Standard_D4s_v5"}, Programs: []string{"az"},
		Create: []Call{
			{Program: "az", Args: [][]string{{"group", "create", "--name", "tare-${name}", "--location", "${zone}", "--output", "none"}}},
			{Program: "az", Args: [][]string{{"aks", "create", "--resource-group", "tare-${name}", "--name", "${name}", "--node-count", "${nodes}", "--generate-ssh-keys", "--output", "none"},
				{"--node-vm-size", "${machine}"}, {"--kubernetes-version", "${version}"}}},
			{Program: "az", Args: [][]string{{"aks", "get-credentials", "--resource-group", "tare-${name}", "--name", "${name}", "--file", "${kubeconfig}"}}}},
	},
	{
		Name: "eks", Doc: "Amazon Elastic Kubernetes Service: with --dry-run only; --zone is a region",
		Cloud: true, Needs: []string{"zone"}, Has: []string{"zone", "machine", "version"},
		Default: Settings{Nodes: 3, Machine: "m5.xlarge"}, Programs: []string{"eksctl"},
		Create: []Call{{Program: "eksctl", Args: [][]string{{"create", "cluster", "--name", "${name}", "--region", "${zone}", "--nodes", "${nodes}",
			"--kubeconfig", "${kubeconfig}"}, {"--node-type", "${machine}"}, {"--version", "${version}"}}}},
	},
	{
		Name: "tare-cluster", Doc: "the test cluster of tare's repository; needs root",
		Programs: []string{"tare-cluster"}, Install: "build it with `make bin/tare-cluster` in tare's repository, and run there with PATH=$PWD/bin:$PATH",
		MaxNodes: 9,
		List:     Call{Program: "tare-cluster", Args: [][]string{{"status", "--name", "${name}"}}},
		Listed:   `^cluster ${name}: (up|not ready)`,
		Create:   []Call{{Program: "tare-cluster", Args: [][]string{{"up", "--name", "${name}", "--nodes", "${nodes}"}}}},
		Delete:   []Call{{Program: "tare-cluster", Args: [][]string{{"down", "--name", "${name}"}}}},

		SeparateFrom: &Call{Program: "tare-cluster", Args: [][]string{{"kubeconfig", "--name", "${name}"}}},
		Context:      "tare-cluster-${name}",
		Problems: []Problem{
			{Output: `it takes root|operation not permitted`, Text: "the test cluster needs root", Hint: "run it as root, or use kind"}},
	},
}
