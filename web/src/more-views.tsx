// The views and panels that on-demand.tsx loads. What only they import is not in the file that every
// visit loads.
import type { Session } from './api-types';
import { BranchesPanel } from './branches-panel';
export { CommandPalette } from './command-palette';
import { CommitsView } from './commits-view';
import { CompareView } from './compare-view';
import { DeliveriesView } from './deliveries-view';
import { DetailsPanel } from './details-panel';
export { DirectoryDialog } from './directory-dialog';
export { ExportDialog } from './export-dialog';
import { PeopleView } from './people-view';
import type { Panel as PanelName } from './preferences';
export { RewoundTurns } from './rewound-turns';
import type { Route } from './route';
import { TaskPanel } from './task-panel';

export function View({ route }: { route: Route }) {
  switch (route.view) {
    case 'commits':
      return <CommitsView />;
    case 'compare':
      return <CompareView id={route.id} other={route.other} />;
    case 'people':
      return <PeopleView key={route.id} id={route.id} />;
    case 'deliveries': {
      const { filter, session } = route;
      return <DeliveriesView key={`${filter}/${session}`} filter={filter} session={session} />;
    }
    default:
      return null;
  }
}

/** The content of the panel beside the transcript. */
export function Panel({ name, session }: { name: PanelName | null; session: Session }) {
  switch (name) {
    case 'task':
      return <TaskPanel session={session} />;
    case 'branches':
      return <BranchesPanel session={session} />;
    case 'details':
      return <DetailsPanel session={session} />;
    default:
      return null;
  }
}
