package main

import (
	"strconv"

	"github.com/spf13/cobra"

	"github.com/ebb-broker/ebb/broker/sqlstore"
	"github.com/ebb-broker/ebb/cmd/internal/out"
)

// migrationLine is one migration of the schema.
type migrationLine struct {
	Version int    `json:"version"`
	Name    string `json:"name"`
	State   string `json:"state"` // applied, pending
}

var migrationColumns = []out.Column[migrationLine]{
	{Name: "version", Cell: func(m migrationLine) string { return strconv.Itoa(m.Version) }},
	{Name: "name", Cell: func(m migrationLine) string { return m.Name }},
	{Name: "state", Cell: func(m migrationLine) string { return m.State }},
}

func newMigrate(c *cli) *cobra.Command {
	cmd := &cobra.Command{Use: "migrate", Short: "Migrate the database to the schema of this binary (ebb serve does so too)", Args: cobra.NoArgs}
	check := cmd.Flags().Bool("check", false, "change nothing; exit with 1 if a migration is pending")
	cmd.RunE = c.do(func(cmd *cobra.Command, _ []string) error {
		cfg, err := c.loadConfig()
		if err != nil {
			return err
		}
		if cfg.Database == "" {
			if err := privateDir(cfg.DataDir); err != nil {
				return err
			}
		}
		if !*check {
			if _, err := sqlstore.Migrate(cmd.Context(), databaseConfig(cfg)); err != nil {
				return err
			}
		}
		state, err := sqlstore.MigrationStatus(cmd.Context(), databaseConfig(cfg))
		if err != nil {
			return err
		}
		var lines []migrationLine
		for _, f := range state.Applied {
			lines = append(lines, migrationLine{f.Version, f.Name, "applied"})
		}
		for _, f := range state.Pending {
			lines = append(lines, migrationLine{f.Version, f.Name, "pending"})
		}
		if err := out.List(c.stdout, c.format, migrationColumns, lines); err != nil {
			return err
		}
		if *check && len(state.Pending) > 0 {
			return fail(strconv.Itoa(len(state.Pending))+" migration(s) are pending", "run `ebb migrate`")
		}
		return nil
	})
	return c.output(cmd)
}
