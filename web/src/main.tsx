import './style/base.css';
import './style/parts.css';
import './style/screens.css';
import './style/tenant.css';
import './state/stored';
import { render } from 'preact';
import { App } from './app';

render(<App />, document.getElementById('app')!);
