package main

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/leasectl/leasectl/internal/proxyserver/store/bolt"
	"github.com/leasectl/leasectl/proxyclient"
)

func newBackupCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "backup FILE",
		Short: "copy the store of a running proxy",
		Long: `Backup writes the store of the proxy to FILE, as it is at this moment, while the
proxy goes on. FILE is replaced when the copy is a whole store and on disk. Reading the
copy may take ten minutes. To restore it, put it into an empty directory under the name
leases.db, and serve with --data DIRECTORY. Grants and releases since the copy was
made are not in it.

If the proxy asks for tokens, it takes one that is marked admin.`,
		Example: `  leasectl backup leases-backup.db --proxy http://127.0.0.1:8370`,
		Args:    oneArg("a file", "leases-backup.db"),
		RunE:    func(cmd *cobra.Command, args []string) error { return a.backup(cmd.Context(), args[0]) },
	}
}

func (a *app) backup(ctx context.Context, path string) error {
	if path == "-" {
		return usagef("backup -: want a file, which is there when the copy is whole, and not stdout (./- is a file of that name)")
	}
	return a.operate(ctx, "nothing is copied", func(_ context.Context, client *proxyclient.Client) error {
		// This is the outer ctx, since a large store takes longer than statusTimeout. Backup
		// itself bounds how long the proxy may send nothing.
		size, err := bolt.SaveBackup(path, func(w io.Writer) (int64, error) { return client.Backup(ctx, w) })
		if err != nil {
			return err
		}
		a.Notef("copied %d bytes to %s", size, path)
		return nil
	})
}
