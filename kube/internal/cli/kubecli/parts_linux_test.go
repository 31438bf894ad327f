package kubecli

import "github.com/tare-mesh/tare/test/part"

// A run holds its cluster. Tests with runs are divided among clusters, to take about the same time on each. A mesh is an
// object of the whole cluster. The first cluster has the others.
var (
	_ = part.Of("second", TestKubernetesBackgroundPods, TestKubernetesFaults, TestKubernetesInterleaved, TestKubernetesKilled, TestKubernetesLoadFromOutside,
		TestKubernetesMetersAgree, TestKubernetesOutsideClient, TestKubernetesPrintedPermissions, TestKubernetesQuickstart)
	_ = part.Of("istio", TestKubernetesIstio, TestKubernetesIstioByOthers, TestKubernetesIstioCapacity, TestKubernetesIstioChanges, TestKubernetesIstioCommands,
		TestKubernetesIstioForeign, TestKubernetesIstioKilled, TestKubernetesIstioLadder, TestKubernetesIstioObjects, TestKubernetesIstioPodinfo,
		TestKubernetesIstioRevisions, TestKubernetesIstioStreams, TestKubernetesIstioUpgrade, TestKubernetesUninstallLooksAtNodes)
	_ = part.Of("meshes", TestKubernetesGateway, TestKubernetesGatewaysAlone, TestKubernetesIstioOutsideClient)
	_ = part.Of("nodes", TestThreeNodesDebate, TestThreeNodesLost, TestThreeNodesPlacement)
)
