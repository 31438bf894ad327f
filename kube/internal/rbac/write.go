package rbac

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/kube/internal/cluster"
)

// Write prints the manifest that grants a run's permissions to subject: a ClusterRole, or a Role and a ClusterRole for the
// nodes if namespace is not empty. Its comments give the purpose of each rule.
func Write(w io.Writer, namespace string, subject Subject) error {
	if wrong := validation.IsDNS1123Label(namespace); namespace != "" && len(wrong) > 0 {
		return fmt.Errorf("namespace %q: %s", namespace, wrong[0])
	}
	var b strings.Builder
	b.WriteString("# RBAC permissions of tare. Apply with the permission to grant them: kubectl apply -f -\n")
	if namespace != "" {
		b.WriteString("# A Role in one namespace cannot grant:\n")
		for _, p := range needed {
			if p.Cluster {
				fmt.Fprintf(&b, "#   %s; without: %s\n", strings.Join(p.Resources, ", "), p.Without)
			}
		}
		role{"tare", namespace, inRole(true), subject}.write(&b)
		b.WriteString("---\n")
		role{"tare-nodes-" + namespace, "", nodePermissions(true), subject}.write(&b) // another namespace's manifest must not replace it
	} else {
		b.WriteString("# Trials create their own namespaces, whose names are not known in advance.\n")
		role{"tare", "", Needed(false), subject}.write(&b)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// WriteFor prints the manifest that grants permissions of one experiment: a ClusterRole, and a Role in each namespace
// that permissions are limited to. comment is its first line.
func WriteFor(w io.Writer, comment string, permissions []Permission, subject Subject) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n# Trials create their own namespaces, whose names are not known in advance.\n", comment)
	namespaces := lists.Add(nil, lists.Map(permissions, func(p Permission) string { return p.Namespace })...)
	slices.Sort(namespaces)
	for i, namespace := range namespaces {
		if i > 0 {
			b.WriteString("---\n")
		}
		of := slices.DeleteFunc(slices.Clone(permissions), func(p Permission) bool { return p.Namespace != namespace })
		role{"tare", namespace, of, subject}.write(&b)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// role is a ClusterRole, or a Role in a namespace, with its binding.
type role struct {
	name        string
	namespace   string
	permissions []Permission
	subject     Subject
}

func (r role) write(b *strings.Builder) {
	labels := "labels: {" + cluster.LabelManagedBy + ": " + cluster.ManagedBy + "}"
	kind, meta := "ClusterRole", "metadata: {name: "+r.name+", "+labels+"}"
	if r.namespace != "" {
		kind, meta = "Role", "metadata: {name: "+r.name+", namespace: "+r.namespace+", "+labels+"}"
	}
	fmt.Fprintf(b, "apiVersion: rbac.authorization.k8s.io/v1\nkind: %s\n%s\nrules:\n", kind, meta)
	purpose := ""
	for _, p := range r.permissions {
		text := "# for " + printable.Line(p.For) // names of others' roles are part of it
		if p.Without != "" {
			text += "; without: " + p.Without
		}
		if allows := p.Allows(); allows != "" {
			text += "\n# allows: " + allows
		}
		if text != purpose {
			fmt.Fprintf(b, "%s\n", text)
			purpose = text
		}
		b.WriteString(p.rule())
	}
	fmt.Fprintf(b, "---\napiVersion: rbac.authorization.k8s.io/v1\nkind: %sBinding\n%s\n", kind, meta)
	fmt.Fprintf(b, "roleRef: {apiGroup: rbac.authorization.k8s.io, kind: %s, name: %s}\nsubjects:\n", kind, r.name)
	if r.subject.Kind == "ServiceAccount" {
		fmt.Fprintf(b, "- {kind: ServiceAccount, namespace: %q, name: %q}\n", r.subject.Namespace, r.subject.Name)
	} else {
		fmt.Fprintf(b, "- {apiGroup: rbac.authorization.k8s.io, kind: %s, name: %q}\n", r.subject.Kind, r.subject.Name)
	}
}

func (p Permission) rule() string {
	if len(p.URLs) > 0 {
		return fmt.Sprintf("- nonResourceURLs: [%s]\n  verbs: [%s]\n", quotedList(p.URLs), quotedList(p.Verbs))
	}
	s := fmt.Sprintf("- apiGroups: [%q]\n  resources: [%s]\n", p.Group, quotedList(p.Resources))
	if len(p.Names) > 0 {
		s += fmt.Sprintf("  resourceNames: [%s]\n", quotedList(p.Names))
	}
	return s + fmt.Sprintf("  verbs: [%s]\n", quotedList(p.Verbs))
}

// quotedList is a list in YAML. Plain words are not quoted.
func quotedList(words []string) string {
	var all []string
	for _, w := range words {
		if strings.Trim(w, "abcdefghijklmnopqrstuvwxyz0123456789/.-") != "" || w == "" || strings.ContainsAny(w[:1], "0123456789-.") {
			w = fmt.Sprintf("%q", w)
		}
		all = append(all, w)
	}
	return strings.Join(all, ", ")
}
