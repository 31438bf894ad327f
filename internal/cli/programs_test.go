package cli

const modulePath = "github.com/tare-mesh/tare/"
